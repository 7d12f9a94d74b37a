package api

import (
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodSum is a digest of a pod's status without what the API server itself puts there.
func PodSum(s *corev1.PodStatus) string {
	c := *s
	c.QOSClass, c.ObservedGeneration, c.PodIPs, c.HostIPs = "", 0, nil, nil
	c.Conditions = nil
	for _, one := range s.Conditions {
		one.ObservedGeneration, one.LastProbeTime = 0, metav1.Time{}
		c.Conditions = append(c.Conditions, one)
	}
	raw, err := c.Marshal()
	return Sum(raw, err)
}

// Sum is a digest of bytes; it is empty where they could not be made.
func Sum(raw []byte, err error) string {
	if err != nil {
		return ""
	}
	h := fnv.New64a()
	_, _ = h.Write(raw) // it has no error
	return strconv.FormatUint(h.Sum64(), 36)
}
