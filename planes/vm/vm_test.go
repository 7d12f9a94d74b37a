package vm_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
	"github.com/windtunnel/windtunnel/planes/vm"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/planes/vm/internal/controller"
	"github.com/windtunnel/windtunnel/planes/vm/internal/webhook"
)

// TestOptionsInDocs holds that the page has the controller's presets as they are declared.
func TestOptionsInDocs(t *testing.T) {
	o := controller.Default()
	repotest.GoldenPart(t, repotest.Path(t, "docs", "how-to", "reproducing-kubevirt-density.md"), "options of vm-controller",
		o.Words().Table("HEAD", api.PresetV049, api.PresetV044, words.ImprovedPreset))
}

// TestWebhookOptionsInDocs does the same for the webhook.
func TestWebhookOptionsInDocs(t *testing.T) {
	o := webhook.Default()
	repotest.GoldenPart(t, repotest.Path(t, "docs", "how-to", "reproducing-kubevirt-density.md"), "options of vm-webhook",
		o.Words().Table("HEAD", api.PresetV049, api.PresetV044, words.ImprovedPreset))
}

func TestVerbsSayWhatIsWrong(t *testing.T) {
	planetest.CheckRefusals(t, vm.Verbs, map[string]string{
		"vm-controller --kubeconfig /none/such":    "read kubeconfig",
		"vm-agent --shard 3/2 --kubeconfig x":      "--shard",
		"vm-agent --log-level loud --kubeconfig x": "--log-level",
		"vm-webhook --kubeconfig=":                 "none given",
		"vm-controller --limiter 5 --kubeconfig x": "QPS/BURST",
		"vm-controller --limitr 5/10":              "limitr",
		"vm-controller --limiter fast":             "QPS/BURST",
		"vm-controller --threads 0":                "threads",
		"vm-controller --overhead-ratio 0":         "overhead-ratio",
		"vm-controller --node-timeout 0s":          "node-timeout",
		"vm-controller --migrations-per-source 0":  "migrations-per-source",
		"vm-agent --threads 0":                     "threads",
		"vm-agent --heartbeat 0s":                  "heartbeat",
		"vm-agent --scope all":                     "scope",
		"vm-agent --hypervisor xen":                "hypervisor",
		"vm-agent --spread -1":                     "spread",
		"vm-agent --fault-selector (":              "selector",
		"vm-agent --stuck-finalizers 2":            "stuck-finalizers 2: want at most 1",
		"vm-agent --concurrency 0":                 "concurrency",
		"vm-agent --start -1s":                     "start",
		"vm-agent --bandwidth 0":                   "bandwidth",
	})
}
