//go:build cgo && linux

package gpuinfo

import (
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// shared is the process's one NVML. go-nvml keeps what it has looked up, and the text of its errors, in variables without a lock: they
// change only under mu, while there are no users.
var shared struct {
	mu    sync.Mutex
	lib   nvml.Interface // made once: a failed initialisation leaves the library loaded
	users int
}

// openNVML loads and initialises NVML for the first user.
func openNVML() (library, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.lib == nil {
		shared.lib = nvml.New()
	}
	if shared.users == 0 {
		if r := shared.lib.Init(); r != nvml.SUCCESS {
			return nil, initError(r)
		}
	}
	shared.users++
	return &nvmlLibrary{}, nil
}

func initError(r nvml.Return) error {
	if r == nvml.ERROR_LIBRARY_NOT_FOUND {
		return &UnavailableError{What: "NVML", Reason: NoLibrary, Detail: "libnvidia-ml.so.1 cannot be loaded"}
	}
	return &UnavailableError{What: "NVML", Reason: Refused, Detail: "nvmlInit: " + r.Error()}
}

// nvmlLibrary is one share of shared.
type nvmlLibrary struct{ closed bool } // guarded by shared.mu

func (l *nvmlLibrary) close() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	shared.users--
	if shared.users > 0 {
		return nil
	}
	return answer("nvmlShutdown", shared.lib.Shutdown())
}

// has says whether the library exports a function. It must be asked before each call: a function that is missing ends the process.
func has(name string) error {
	if err := shared.lib.Extensions().LookupSymbol(name); err != nil {
		return &UnavailableError{What: name, Reason: OldLibrary, Err: err}
	}
	return nil
}

// answer turns a function's result into an error.
func answer(name string, r nvml.Return) error {
	if r == nvml.SUCCESS {
		return nil
	}
	return &UnavailableError{What: name, Reason: Refused, Detail: strings.TrimSpace(r.Error())}
}

func (l *nvmlLibrary) driverVersion() (string, error) {
	return call("nvmlSystemGetDriverVersion", shared.lib.SystemGetDriverVersion)
}

func (l *nvmlLibrary) gpu(address string) (gpu, error) {
	d, err := call("nvmlDeviceGetHandleByPciBusId_v2", func() (nvml.Device, nvml.Return) {
		return shared.lib.DeviceGetHandleByPciBusId(address)
	})
	if err != nil {
		return nil, err
	}
	return nvmlGPU{d}, nil
}

// call calls a function of NVML, if there is one.
func call[T any](name string, f func() (T, nvml.Return)) (T, error) {
	if err := has(name); err != nil {
		return *new(T), err
	}
	v, r := f()
	return v, answer(name, r)
}
