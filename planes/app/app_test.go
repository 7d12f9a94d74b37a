package app_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/planes/app"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

func TestVerbsSayWhatIsWrong(t *testing.T) {
	planetest.CheckRefusals(t, app.Verbs, map[string]string{
		"app-controller --profile v9":                          "want one of improved, v175, v18",
		"app-controller --profile v1.7.5 --gc-passes 0":        "gc-passes 0: want at least 1",
		"app-controller --use-webhook --shard-id a":            "use-webhook with shard-id a",
		"app-controller --limiter-scope all":                   `limiter-scope "all": want one of kind, client`,
		"app-controller --concurrent-reconciles 0":             "concurrent-reconciles",
		"app-controller --application-re-sync-period 0s":       "application-re-sync-period",
		"app-controller --application-revision-limit -1":       "application-revision-limit",
		"app-controller --resync-jitter 2":                     "resync-jitter",
		"app-controller --kube-api-qps 0":                      "kube-api-qps 0: want more than 0",
		"app-controller --gc-passes 3":                         "gc-passes 3: want at most 2",
		"app-controller --feature-gates ZstdTracker=true":      `gate "ZstdTracker"`,
		"app-controller --feature-gates ZstdResourceTracker":   "NAME=true",
		"app-controller --shard-idd=x":                         "shard-idd",
		"app-controller --kubeconfig /none/such --profile v18": "read kubeconfig",
	})
}
