package clusters_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/tree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

func TestVerbsSayWhatIsWrong(t *testing.T) {
	planetest.CheckRefusals(t, clusters.Verbs, map[string]string{
		"tree-manager --kubeconfig=":                    "none given",
		"tree-manager --preset better":                  `--preset "better": want one of improved, main`,
		"tree-manager --leaf-reads never":               `leaf-reads "never": want one of`,
		"tree-manager --pod-queue none":                 "pod-queue",
		"tree-manager --node-lookup guess":              "node-lookup",
		"tree-manager --node-patch never":               "node-patch",
		"tree-manager --status-put never":               "status-put",
		"tree-manager --status-guard name":              "status-guard",
		"tree-manager --service-env some":               "service-env",
		"tree-manager --dependents none":                "dependents",
		"tree-manager --unjoin all":                     "unjoin",
		"tree-manager --import all":                     "import",
		"tree-manager --import-end never":               "import-end",
		"tree-manager --retry never":                    "retry",
		"tree-manager --pod-workers 0":                  "pod-workers",
		"tree-manager --lease-interval 0s":              "lease-interval",
		"tree-manager --request-timeout=-1s":            "request-timeout",
		"tree-manager --limiter fast":                   "QPS/BURST",
		"tree-members":                                  "no folder of kubeconfigs",
		"tree-members --members x --leaf-mode some":     "leaf-mode",
		"tree-members --members x --leaf-mode party":    "leaf-label",
		"tree-members --members x --nodes -1":           "nodes -1: want at least 0",
		"tree-members --members " + t.TempDir() + "/no": "there is no NAME.kubeconfig",
	})
}

// TestOptionsInDocs holds that the page has the options of the manager as they are
// declared.
func TestOptionsInDocs(t *testing.T) {
	o := tree.Default()
	repotest.GoldenPart(t, repotest.Path(t, "docs", "how-to", "reproducing-kosmos.md"), "options of tree-manager", o.Words().Table("v0.5.5", words.ImprovedPreset))
}
