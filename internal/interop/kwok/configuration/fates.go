package configuration

import "github.com/windtunnel/windtunnel/internal/interop/kit"

// OptionFates are all fields of a KwokConfiguration's options.
func OptionFates() kit.Table {
	const (
		workers = "has no meaning here: requests are not sent by a number of workers"
		lists   = "has no meaning here: the pods of a node are not listed one node at a time"
	)
	honored := func(name, text string) kit.Field { return kit.Field{Name: name, Fate: kit.Honored, Text: text} }
	noted := func(name, text string) kit.Field { return kit.Field{Name: name, Fate: kit.Noted, Text: text} }
	return kit.Table{kit.Of[Options]("options", kit.Fields{
		honored("manageSingleNode", "the node that is managed"), honored("manageAllNodes", "all nodes are managed"),
		honored("manageNodesWithAnnotationSelector", "the nodes that are managed"), honored("manageNodesWithLabelSelector", "the nodes that are managed"),
		honored("disregardStatusWithAnnotationSelector", "nodes and pods whose status is left alone"), honored("disregardStatusWithLabelSelector", "nodes and pods whose status is left alone"),
		honored("nodeIP", "the address of nodes"), honored("nodeName", "the host name of nodes"), honored("nodePort", "the port of the server that stands for kubelets"),
		honored("cidr", "the network of pods' addresses"), honored("nodeLeaseDurationSeconds", "the leases' duration; 0: no leases"),
		honored("serverAddress", "the address of that server"), honored("tlsCertFile", "its certificate"), honored("tlsPrivateKeyFile", "its key"),
		honored("enableDebuggingHandlers", "whether it serves logs, commands and ports"), honored("enableProfilingHandler", "whether it serves profiles"),
		honored("enableCRDs", "kinds that are read from the cluster"),
		noted("podPlayStageParallelism", workers), noted("nodePlayStageParallelism", workers), noted("nodeLeaseParallelism", workers),
		noted("podsOnNodeSyncParallelism", lists), noted("enablePodsOnNodeSyncListPager", lists), noted("enablePodsOnNodeSyncStreamWatch", lists),
		noted("enableContentionProfiling", "has no meaning here: the block profile stays off"),
	})}
}
