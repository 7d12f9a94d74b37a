package launcher

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

const mebi = 1 << 20

// Overhead returns the memory in bytes that a launcher pod needs beyond its
// guest's, times ratio (1 is KubeVirt's default). It is KubeVirt's estimate for
// the KVM hypervisor on amd64: its processes (monitor 25 Mi, launcher 100 Mi,
// log daemon 25 Mi, QEMU driver 40 Mi, QEMU 50 Mi), page tables of a 512th of
// the guest, 8 Mi for each virtual processor, 8 Mi for an I/O thread, 32 Mi of
// video memory, 53 Mi for a TPM, and 100 Mi of reserve where the pod's memory
// is guaranteed.
func Overhead(spec *api.InstanceSpec, ratio float64) int64 {
	sum := int64(25+100+25+40+50) * mebi
	sum += spec.GuestMemory() / 512
	sum += spec.VCPUs() * 8 * mebi
	sum += 8 * mebi
	if v := spec.Domain.Devices.AutoattachGraphicsDevice; v == nil || *v {
		sum += 32 * mebi
	}
	if len(spec.Domain.Devices.TPM) > 0 && string(spec.Domain.Devices.TPM) != "null" {
		sum += 53 * mebi
	}
	if isGuaranteed(spec) {
		sum += 100 * mebi
	}
	return int64(float64(sum) * ratio)
}

func isGuaranteed(spec *api.InstanceSpec) bool {
	d := &spec.Domain
	if d.CPU != nil && d.CPU.DedicatedCPUPlacement {
		return true
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, ok := d.Resources.Limits[name]
		if !ok {
			return false
		}
		if request, ok := d.Resources.Requests[name]; ok && request.Cmp(limit) != 0 {
			return false
		}
	}
	return true
}
