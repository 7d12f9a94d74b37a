package kubeburner

import (
	"maps"
	"math"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/interop/placement"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// podSpec is what a pod asks of its node.
type podSpec struct {
	placement.Pod
	Volumes []struct {
		Ephemeral struct {
			Claim *claim `json:"volumeClaimTemplate"`
		} `json:"ephemeral"`
	} `json:"volumes"`
	Containers []struct {
		Command   []string `json:"command"`
		Args      []string `json:"args"`
		Resources struct {
			Requests map[string]string `json:"requests"`
		} `json:"resources"`
	} `json:"containers"`
}

// demand is what the pods of a config need: so many of them, so much of a
// node's CPU and memory, and nodes with such labels.
type demand struct {
	pods, cores, bytes float64
	labels             placement.Labels
}

// addCreation counts the pods of one creation. Pods of jobs that follow each other may
// be there at the same time.
func (d *demand) addCreation(items []item, iterations int) {
	for _, it := range items {
		pods, spec := it.podsPerObject()
		d.labels.Want(spec.Pod)
		n := float64(pods * it.countObjects(iterations))
		d.pods += n
		for _, c := range spec.Containers {
			d.cores += n * unit.Amount(c.Resources.Requests["cpu"])
			d.bytes += n * unit.Amount(c.Resources.Requests["memory"])
		}
	}
}

// podsPerObject is how many pods one object of an item makes, and what each asks for.
func (it item) podsPerObject() (int, podSpec) {
	replicas := 1
	switch it.kind {
	case "Pod":
		return 1, it.sample.Spec.podSpec
	case "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet":
		if r := it.sample.Spec.Replicas; r != nil {
			replicas = *r
		}
	case "Job":
		if p := it.sample.Spec.Parallelism; p != nil {
			replicas = *p
		}
	default:
		return 0, podSpec{}
	}
	return replicas, it.sample.Spec.Template.Spec
}

// worker is the label of the nodes that kube-burner's workloads run on.
const worker = "node-role.kubernetes.io/worker"

// sizeFleet says how many nodes there are: as many as Set says, or as the pods need
// when a tenth of each node stays free.
func (im *importer) sizeFleet() {
	f := &im.out.Fleet
	d := im.demand
	const pods, cores, bytes = 110, 32, 256 << 30 // of the fleet's default node
	f.Nodes = int(math.Ceil(max(d.pods/pods, d.cores/cores, d.bytes/bytes) / 0.9))
	f.Labels = map[string]string{worker: ""}
	maps.Copy(f.Labels, d.labels.Values())
	for _, what := range d.labels.Unmet() {
		im.noteChange(0, "nodes", "pods select nodes with %s, which no simulated node has: they stay pending", what)
	}
	im.bindClaims()
	text, ok := im.opts.Set["Nodes"]
	if !ok {
		im.addNote(0, "nodes", "the config names no cluster: its pods run on %s (--set Nodes=N for another number)", unit.Count(f.Nodes, "simulated nodes"))
		return
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		im.addFaultAt(0, "--set Nodes=%s: not a whole number of 0 or more", text)
	}
	f.Nodes = n
}
