package vm_test

import (
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/planes/vm"
)

// The processes of a plane whose controller may send five calls a second.
func Example() {
	o, err := vm.Parse([]byte("limiter: 5/10\nagents: {maxDevices: 110}\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	commands, err := o.Commands("admin.kubeconfig", []string{"127.0.0.1:9001", "127.0.0.1:9002", "127.0.0.1:9003"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range commands {
		fmt.Println(c.Name, strings.Join(c.Args[:min(len(c.Args), 7)], " "))
	}
	// Output:
	// vm-controller vm-controller --kubeconfig admin.kubeconfig --listen 127.0.0.1:9001 --limiter 5/10
	// vm-webhook vm-webhook --kubeconfig admin.kubeconfig --listen 127.0.0.1:9002 --create-only=false
	// vm-agent vm-agent --kubeconfig admin.kubeconfig --listen 127.0.0.1:9003 --limiter 5/10
}
