package qemutest

import (
	"testing"

	"github.com/tritier/tritier/internal/qemu"
)

func TestVFIO(t *testing.T) {
	qemu.Test(t, qemu.Config{Package: "github.com/tritier/tritier/libnvm/qemutest/guest", IOMMU: true, Modules: true, MinPass: 1})
}
