package edge_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/edge"
	"github.com/windtunnel/windtunnel/planes/edge/internal/hub"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// TestOptionsInDocs holds that the page has the options of the hub as they are declared.
func TestOptionsInDocs(t *testing.T) {
	o := hub.Default()
	repotest.GoldenPart(t, repotest.Path(t, "docs", "how-to", "reproducing-kubeedge-100k.md"), "options of edge-hub", o.Words().Table("KubeEdge's", words.ImprovedPreset))
	repotest.GoldenPart(t, repotest.Path(t, "docs", "how-to", "reproducing-kubeedge-100k.md"), "releases of edge-hub", o.Words().Table("today's", hub.PresetV111, hub.PresetReport))
}

func TestVerbsSayWhatIsWrong(t *testing.T) {
	planetest.CheckRefusals(t, edge.Verbs, map[string]string{
		"edge-hub --kubeconfig=":                         "none given",
		"edge-hub --preset better":                       `--preset "better": want one of improved, report, v1.11`,
		"edge-hub --owner none":                          "owner",
		"edge-hub --resync never":                        "resync",
		"edge-hub --store disk":                          "store",
		"edge-hub --node-filter meta":                    "node-filter",
		"edge-hub --pod-filter off":                      "pod-filter",
		"edge-hub --birth later":                         "birth",
		"edge-hub --limit-answer loud":                   "limit-answer",
		"edge-hub --annotate never":                      "annotate",
		"edge-hub --join half":                           "join",
		"edge-hub --queues v2":                           "queues",
		"edge-hub --device-lookup never":                 "device-lookup",
		"edge-hub --device-workers 0":                    "device-workers",
		"edge-hub --model-wait -1s":                      "model-wait",
		"edge-fleet --grid 16s":                          "grid",
		"edge-fleet --read-every -1s":                    "read-every",
		"edge-fleet --duplicate 2":                       "duplicate",
		"edge-fleet --tls none":                          "tls",
		"edge-fleet --tls resume":                        "--crypto-tls",
		"edge-fleet --reports -1":                        "reports",
		"edge-hub --answers never":                       "answers",
		"edge-hub --leases never":                        "leases",
		"edge-hub --workers dance=1":                     "dance=1",
		"edge-hub --buffer 0":                            "buffer",
		"edge-fleet --balance none":                      "balance",
		"edge-fleet --hub-addresses here":                "HOST:PORT/PORT",
		"edge-fleet --loss 2":                            "loss",
		"edge-fleet --flap-every 5s":                     "flap-for",
		"edge-hub --window 0":                            "window",
		"edge-hub --keepalive 0s":                        "keepalive",
		"edge-hub --admit -1":                            "admit",
		"edge-hub --limiter fast":                        "QPS/BURST",
		"edge-direct --edges 0":                          "edges",
		"edge-direct --join-rate 0":                      "join-rate",
		"edge-fleet --edges 0":                           "edges",
		"edge-fleet --edges 20000":                       "at most 19000 in a process",
		"edge-fleet --join-rate 0":                       "join-rate",
		"edge-fleet --sources 300":                       "sources",
		"edge-fleet --drop-acks 1":                       "drop-acks",
		"edge-fleet --certificates none --backoff never": "certificates",
		"edge-fleet --backoff never":                     "backoff",
		"edge-fleet --transport pigeon":                  "transport",
		"edge-fleet --heartbeat pulse":                   "heartbeat",
		"edge-fleet --hubs 0":                            "hubs",
	})
}

// TestEdgePlaneIsMeasured flies the edge plane of the real binary: pods run at edges
// of a real plane, with the measures of the scenario and every phase of a pod.
func TestEdgePlaneIsMeasured(t *testing.T) {
	run := planetest.Fly(t, repotest.Path(t, "examples", "edge", "density.yaml"), "--set", "edges=5", "--set", "pods=10", "--set", "settle=1s")
	var j slo.Judgement
	repotest.NoError(t, json.Unmarshal(repotest.Must(os.ReadFile(filepath.Join(run, record.VerdictFile)))(t), &j))
	for key, within := range map[string][2]float64{
		"edges_connected":   {5, 5},
		"hub_calls_per_pod": {1, 100},
		"lifecycle_edgepod_created_to_bound_p50_seconds":    {0, math.Inf(1)},
		"lifecycle_edgepod_created_to_hubseen_p50_seconds":  {0, math.Inf(1)},
		"lifecycle_edgepod_created_to_acked_p50_seconds":    {0, math.Inf(1)},
		"lifecycle_edgepod_created_to_running_p50_seconds":  {0.05, math.Inf(1)}, // the model's start
		"lifecycle_edgepod_deleting_to_deleted_p50_seconds": {0.03, math.Inf(1)},
	} {
		m, ok := j.Measures[key]
		if !ok || m.Value < within[0] || m.Value > within[1] {
			t.Errorf("%s is %+v (there: %v), want %v", key, m, ok, within)
		}
	}
}
