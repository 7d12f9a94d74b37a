package stage

import "github.com/windtunnel/windtunnel/internal/api/object"

// kwokNodeInitialize is kwok 0.8's template of node-initialize. What the node
// says already is left out: the template repeats it, which changes nothing.
func kwokNodeInitialize(w *writer, o any) {
	n := o.(*object.Node)
	w.head(n.UID)
	w.nodeConditions(n)
	w.kwokAddresses(n, len(n.InternalIP) == 0, !n.HasHostname)
	w.daemon()
	w.resources(n, kwokCapacity)
	program := "kwok-" + w.env.Version
	w.info(n, [...]text{
		{object.InfoArchitecture, "architecture", "amd64"},
		{object.InfoOperatingSystem, "operatingSystem", "linux"},
		{object.InfoContainerRuntimeVersion, "containerRuntimeVersion", program},
		{object.InfoKernelVersion, "kernelVersion", program},
		{object.InfoKubeProxyVersion, "kubeProxyVersion", program},
		{object.InfoKubeletVersion, "kubeletVersion", program},
	})
	w.raw(`,"phase":"Running"}}`)
}

// kwokCapacity is what kwok gives a node that does not say what it has.
const kwokCapacity = `{"cpu":"1k","memory":"1Ti","pods":"1M"}`

// kwokNodeHeartbeat is kwok 0.8's template of node-heartbeat-with-lease.
func kwokNodeHeartbeat(w *writer, o any) {
	n := o.(*object.Node)
	w.head(n.UID)
	w.nodeConditions(n)
	w.kwokAddresses(n, !n.HasAddresses, !n.HasAddresses)
	w.daemon()
	w.raw(`}}`)
}

// kwokAddresses adds the addresses that a node lacks. Where one is lacking and
// there is none to add, the templates leave a null, which removes the others.
func (w *writer) kwokAddresses(n *object.Node, ip, name bool) {
	has := w.hostIP(n).IsValid()
	switch {
	case !ip && !name:
	case !has && !name:
		w.raw(`,"addresses":null`)
	default:
		w.addressesOf(n, ip && has, name)
	}
}
