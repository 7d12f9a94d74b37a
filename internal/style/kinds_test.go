package style_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// kind is a kind of fault that a user has once met, and the test that keeps it away by other
// inputs of the same kind: a fault is mended where it comes from when all of them are right.
type kind struct {
	fault    string   // what was wrong
	test     string   // folder and name of the test, or the path of a file of test data
	variants []string // three inputs or more: each is part of a text of its own there
}

// minVariants is how many inputs of a kind a test has at least.
const minVariants = 3

// kinds are those that a test without a control plane can show.
func kinds() []kind {
	return []kind{
		// A run passes though something did not happen.
		{"a wait that is not met", "internal/fly/steps.TestWaitsForObjects", []string{"too few", "not all", "not gone", "of no use"}},
		{"a call that was answered after its timeout", "internal/api/wire.TestLateAnswerIsATimeout", []string{"/refused", "/watch", "/data"}},
		{"a wait that is not met, judged", "internal/opinion/slo.TestWaitsThatAreNotMet", []string{"not met, which fails", "not met, which is unknown", "not reached"}},
		{"a wait for the end of what never was", "internal/fly/steps.TestWaitsForObjects", []string{"until what never was is gone", "until others are gone", "until pods of no group are gone"}},
		{"the same in members", "internal/fly/steps.TestWaitsForTheEndInMembers", []string{"never there", "there in another", "of other labels", "of a plane that nobody copies from"}},
		{"a step that failed, and the run went on", "internal/opinion/slo.TestWhatWasAskedFor", []string{"a step that failed, and the run went on", "a command that failed", "a step without an end", "a step that the run did not come to"}},
		{"a kind that nobody serves", "internal/fly/flight.TestPlansSayWhatRunsSay", []string{"a call of a kind that nobody has", "a wait for a kind that nobody has", "an object in the wrong group", "a version that is not defined"}},
		{"objects that could not be made", "internal/fly/steps.TestWhatDependsOnRefusedObjectsFails", []string{"update", "requests", "wait for objects", "wait for pods of which one is missing"}},
		{"members of which there are none", "scenario/testdata/members-none.bad.yaml", []string{"step.cluster: there is no member of \"*\"", "step.cluster: there is no member of \"empty\"", "fault.cluster: there is no member of \"empty\"", "lifecycle.cluster: there is no member of \"*\""}},
		{"a command that leaves processes behind", "internal/fly/steps.TestHowCommandsEnd", []string{"sleep 60 &\"", "sleep 70 &", "& exit 4"}},
		{"labels that select nothing", "internal/fly/steps.TestSelectsNothing", []string{"no configmaps have the labels", "its calls of get were not sent", "it changed none", "it churned none"}},
		{"objects that were deleted before", "internal/fly/steps.TestSomeAreGone", []string{"read", "patched by chance", "updated", "churned", "deleted by the step itself"}},
		{"objects that are deleted meanwhile", "internal/fly/steps.TestUpdatesOfWhatIsDeletedMeanwhile", []string{"one of them", "all of them", "churned"}},
		{"updates that change nothing", "internal/fly/workload.TestUpdatesThatChangeNothing", []string{"step: one, with: {verison: 2}", "step: two, object: map, with: {size: 2}", "step: one, body: part, with: {version: 2}"}},
		{"a collection with nothing to delete", "internal/fly/steps.TestSomeAreGone", []string{"collections with nothing in them", "collections of another namespace", "collections of fields that none has", "collections of objects that are gone"}},
		{"a fault that hits nobody", "internal/sim/fleet.TestDisturbancesThatDidNotHappen", []string{"notready: nothing to disturb", "flap: nothing to disturb", "crash: nothing to disturb", "fail: nothing to disturb: no pod was hit"}},
		{"a churn that ends early", "internal/opinion/slo.TestChurnsThatEnd", []string{"cycle 1: 3 of 5 ran", "wait not met (churn)", "pods a/b was deleted and did not go"}},
		{"a measure without an answer", "internal/opinion/slo.TestMeasuresWithoutAnAnswer", []string{"no series", "no number", "cut short"}},
		{"calls that all failed, and are fast", "internal/opinion/slo.TestLatencyOfCallsThatAllFailed", []string{"refused", "not allowed", "failing inside", "of a shared limit"}},
		{"failed calls excused by a slow instrument", "internal/opinion/slo.TestFailedCalls", []string{"refused, on a slow instrument", "no room in the store, on a slow instrument", "a webhook that never answers, on a slow instrument"}},
		{"a scalability question without runs, answered with a figure", "internal/opinion/assess.TestWhatWasNotMeasured", []string{"no parameter", "one size finished", "no counters", "no verdict"}},
		{"a gate that was not measured, answered with no", "internal/opinion/atlas.TestAnswers", []string{"Not measured: did not start.", "Not measured: locked.", "Not measured: not measured."}},
		{"fields of the plane in a cluster of others", "internal/opinion/slo.TestFieldsOfThePlaneInAClusterOfOthers", []string{"durability", "balancer", "audit"}},

		// Files of other tools are run differently than there.
		{"ClusterLoader2: actions that a method does not have", "internal/interop/clusterloader2.TestStepsInPlace", []string{"action: start, ", "action: gather, ", "action: nonsense, "}},
		{"ClusterLoader2: pods that no controller has", "internal/interop/clusterloader2.TestControlledKinds", []string{"Pod", "ConfigMap", "Job"}},
		{"ClusterLoader2: a number of namespaces that is 0 or absent", "internal/interop/clusterloader2.TestNumberOfNamespaces", []string{"namespace: {number: 0}", "automanagedNamespaces: 4\nnamespace: {number: 0}", "automanagedNamespaces: 0"}},
		{"ClusterLoader2: nodes that pods ask for", "internal/interop/clusterloader2.TestNodeLabels", []string{"selected", "others", "two values"}},
		{"ClusterLoader2: allowed slow calls", "internal/interop/clusterloader2.TestSlowCalls", []string{"as many as allowed", "more than allowed", "none allowed", "another bound"}},
		{"ClusterLoader2: shares of nodes", "internal/interop/clusterloader2.TestNodeFailures", []string{"failureRate: 0.01", "failureRate: 0.25", "failureRate: 7"}},
		{"ClusterLoader2: functions and types of templates", "internal/interop/clusterloader2/dialect.TestClusterLoader2Functions", []string{"AddInt .int .long .float .text", "DivideInt -7 2", "MaxFloat 1 7.9 3"}},
		{"kube-burner: how much a churn takes", "internal/interop/kubeburner.TestChurn", []string{"mode: objects, percent: 33", "percent: 45", "iterationsPerNamespace: 2", "namespacedIterations: false"}},
		{"kube-burner: a key that is there twice", "internal/interop/kubeburner/dialect.TestTwice", []string{"of a mapping", "in braces", "made by the template", "quoted once"}},
		{"kube-burner: kinds that a template makes", "internal/interop/kubeburner.TestSeveralKinds", []string{"{{ sub .Replica 1 }}", "{{ mod .Replica 2 }}", "{{ mod .Iteration 3 }}"}},
		{"kube-burner: kinds of others", "internal/interop/kubeburner.TestKindsOfOthers", []string{"outside of namespaces", "in namespaces", "unknown: "}},
		{"kube-burner: how long watches are held", "internal/interop/kubeburner.TestWatchers", []string{"eachIteration", "groups", "podWait", "with gc"}},
		{"kube-burner: classes of claims", "internal/interop/kubeburner.TestClaims", []string{"named", "of a stateful set", "of a pod", "of a deployment"}},
		{"kube-burner: thresholds of jobs that make no such objects", "internal/interop/kubeburner.TestGlobalThresholds", []string{"of jobs", "of pods", "of none", "of one job"}},
		{"kube-burner: what is noted of objects", "internal/interop/kubeburner.TestNotesOnObjects", []string{"commands of containers are not executed", "twice in one mapping", "is a label of kube-burner v1"}},
		{"kwok: fields that there are not", "internal/interop/kwok.TestDocumentFaults", []string{"spac: {}", "spec: {small: 1, smal: 2}", "x: {b: 1}"}},

		// Texts of others.
		{"names that steer a terminal", "cmd/windtunnel.TestVerbsSteerNoTerminal", []string{"evil.yaml", "evil.json", "manifest.yaml", "evil.wtb"}},

		// Limits that are not in force, figures that are none.
		{"values that nothing can have", "scenario/testdata/no-sense.bad.yaml", []string{"etcd: {cpu: 1m}", "pods: 1.5", "interval: 1ns", "count: 9223372036854775807"}},
		{"a key twice in a manifest", "internal/fly/subject.TestDecode", []string{"a key twice in the second", "a key twice in a list", "a key twice in JSON"}},
		{"sizes of memory that are none", "scenario/testdata/memory-limits.bad.yaml", []string{"900Ki", "memory: 1", "at least 16 MiB"}},
		{"more than this machine can hold", "internal/fly/plan.TestUnmet", []string{"the quota here", "memory", "disk", "files"}},
		{"no errors of a controller that there is not", "internal/opinion/slo.TestCountersWithoutSeries", []string{"of a level that there is not", "of a webhook that there is not", "of a controller unheard of", "watches of no resource"}},
		{"labels of an objective that nothing has", "internal/opinion/slo.TestLabelsThatNothingHas", []string{"kube-controler-manager", "jobs", "etcd-7"}},
		{"counters without a series", "internal/opinion/slo.TestCountersWithoutSeries", []string{"of one level", "of webhooks", "of etcd", "another component was read"}},
		{"no figure, shown as 0", "internal/opinion/run.TestCPUSecondsAreKnown", []string{"shorter than a sample", "never began", "one sample", "not sampled in the run"}},
		{"growth that hides behind a base", "internal/opinion/capacity/growth.TestGrowthAgainstNoise", []string{"etcd, growing", "a large base", "noise, far"}},
		{"limits of a configuration file", "internal/opinion/diagnose.TestConfigFileIsNamed", []string{"one word", "two words", "one dash", "beside its own limits"}},
		{"pods that stay unready after their node is back", "internal/sim/fleet.TestPodsAreReadyAgain", []string{"fast, as kubelets", "general", "own, played on JSON"}},

		// Objects and processes of others.
		{"objects of others are changed", "internal/api/door.TestWhatOthersMadeStays", []string{"create secret", "update secret", "patch node", "delete secret"}},
		{"a label alone has an object deleted", "internal/api/cleanup.TestALabelAloneDeletesNothing", []string{"kubectl-label", "kube-controller-manager", "of-it"}},
		{"what is left is not said", "internal/api/cleanup.TestNothingIsLeftUnsaid", []string{"itself", "ring-a", "chain-%d", "again"}},
		{"two signals are taken for two wishes", "cmd/windtunnel.TestSignalsOfOneMomentAreOneWish", []string{"timeout: child and group", "before a second is over", "an echo, then a wish"}},
		{"a stranger is taken for a worker", "internal/fly/share/protocol.TestWhoMayNotTakePart", []string{"another token", "the access of another worker", "a twin", "another build"}},
		{"pods run more than they may", "internal/sim/processnode.TestRefusals", []string{"{containers: [{command: [/bin/ls]}]}", "privileged", "{containers: [{command: [sh]}]}"}},
		{"paths that lead out of a volume", "internal/sim/processnode.TestFilesOfVolumes", []string{"path: ../../x", "path: x/y", "path: k, mode: 0"}},
		{"small requests that take much memory", "internal/sim/hollow.TestSmallRequestsStaySmall", []string{"copies of a JSON patch", "a JSON patch's object", "aliases of an apply"}},
	}
}

// TestEveryKindHasVariants holds that each kind has a test with three inputs or more.
func TestEveryKindHasVariants(t *testing.T) {
	for _, k := range kinds() {
		if fault := faultOfKind(k, textsOf(t, k.test)); fault != "" {
			t.Errorf("%s: %s: %s", k.fault, k.test, fault)
		}
	}
}

// faultOfKind says what a kind's test lacks, whose texts these are; empty: nothing.
func faultOfKind(k kind, texts []string) string {
	if texts == nil {
		return "there is no such test"
	}
	if len(k.variants) < minVariants {
		return strconv.Itoa(len(k.variants)) + " inputs of the kind: name " + strconv.Itoa(minVariants) + " at least"
	}
	taken := map[int]bool{}
	for _, v := range k.variants {
		found := false
		for i, text := range texts {
			if !taken[i] && strings.Contains(text, v) {
				taken[i], found = true, true
				break
			}
		}
		if !found {
			return "it has no text of its own with " + strconv.Quote(v)
		}
	}
	return ""
}

// textsOf returns the string literals of a test, or the lines of a file; nil: there is none.
func textsOf(t *testing.T, where string) []string {
	t.Helper()
	folder, name, isTest := strings.Cut(where, ".Test")
	if !isTest {
		raw, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(where)))
		if err != nil {
			return nil
		}
		return strings.Split(string(raw), "\n")
	}
	files := repotest.Must(filepath.Glob(filepath.Join("../..", filepath.FromSlash(folder), "*_test.go")))(t)
	for _, file := range files {
		parsed := repotest.Must(parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution))(t)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "Test"+name {
				return literalsOf(f)
			}
		}
	}
	return nil
}

// literalsOf returns the string literals of a function, in their order.
func literalsOf(f *ast.FuncDecl) []string {
	out := []string{}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				out = append(out, text)
			}
		}
		return true
	})
	return out
}

// TestFaultOfKind: a kind without three inputs of its own, or without its test, is told.
func TestFaultOfKind(t *testing.T) {
	three := []string{"a", "b", "c"}
	for name, tt := range map[string]struct {
		texts, variants []string
		want            bool
	}{
		"three":            {[]string{"x a", "b", "c", "d"}, three, false},
		"two":              {three, three[:2], true},
		"one of them gone": {[]string{"a", "b"}, three, true},
		"all in one text":  {[]string{"a b c"}, three, true},
		"no test":          {nil, three, true},
	} {
		if fault := faultOfKind(kind{variants: tt.variants}, tt.texts); (fault != "") != tt.want {
			t.Errorf("%s: %q", name, fault)
		}
	}
}
