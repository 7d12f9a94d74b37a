package component_test

import (
	"fmt"
	"testing"

	"github.com/windtunnel/windtunnel/internal/component"
)

func TestOf(t *testing.T) {
	for process, want := range map[string]string{
		"etcd": "etcd 0", "etcd-0": "etcd 0", "etcd-12": "etcd 12", "kube-apiserver-1": "kube-apiserver 1", "kube-apiserver": "kube-apiserver 0",
		"etcd-peer": "etcd-peer 0", "etcd-01": "etcd-01 0", "etcd--1": "etcd--1 0", "member-1": "member-1 0", "": " 0", "-1": "-1 0",
	} {
		name, number := component.Of(process)
		if got := fmt.Sprint(name, " ", number); got != want {
			t.Errorf("%q: %s, want %s", process, got, want)
		}
	}
	for _, name := range component.Names() {
		for n := range 4 {
			for i, process := range component.Instances(name, n) {
				if of, number := component.Of(process); of != name || number != i || !component.Is(process, name) {
					t.Errorf("%s of %d: %s is %s %d", name, n, process, of, number)
				}
			}
		}
	}
	if component.Is("etcd-1", "etcd-0") || component.Is("kube-apiserver-0", "etcd") || !component.Is("etcd-1", "etcd-1") {
		t.Error("a process is taken for another")
	}
}
