package tritier

import (
	"time"

	"github.com/tritier/tritier/tier/host"
)

// Event is a move that has ended, as Config.Events is told.
type Event = host.Event

// ServiceCPU is the processor time that the threads have used which serve the drives
// in software, since Open; known is false when there are none, or when the system
// does not say.
func (m *Memory) ServiceCPU() (used time.Duration, known bool) { return m.vol.ServiceCPU() }
