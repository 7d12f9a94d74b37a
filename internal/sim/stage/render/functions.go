package render

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/text/limit"
)

// boundFunctions returns all functions, those of the world bound to the instance.
func (i *instance) boundFunctions() template.FuncMap {
	f := sprig.TxtFuncMap()
	for _, name := range []string{"env", "expandenv", "getHostByName"} {
		delete(f, name)
	}
	f["Quote"], f["YAML"], f["NodeConditions"] = quoteText, toYAML, nodeConditions
	for _, name := range []string{"Now", "now", "StartTime", "Version", "NodeIP", "NodeName", "NodePort", "PodIP",
		"NodeIPWith", "PodIPWith", "NodeIPsWith", "PodIPsWith"} {
		f[name] = i.askFleet(name)
	}
	f["ago"] = func(at time.Time) string { return i.env.Now.Sub(at).Round(time.Second).String() }
	i.bindRandom(f)
	return limit.Functions(f)
}

// askFleet asks the env's fleet and functions, in turn.
func (i *instance) askFleet(name string) Function {
	return func(args ...any) (any, error) {
		if i.env.Fleet != nil {
			values := make([]object.Value, len(args))
			for n, a := range args {
				values[n] = object.Of(a)
			}
			if v, ok := i.env.Fleet.Answer(name, values); ok {
				tree, _ := v.Tree()
				return tree, nil
			}
		}
		if f := i.env.Functions[name]; f != nil {
			return f(args...)
		}
		return i.env.answerAlone(name), nil
	}
}

// bindRandom binds sprig's random functions to the env's chance, so that a seed
// repeats them.
func (i *instance) bindRandom(f template.FuncMap) {
	const digits, letters = "0123456789", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for name, alphabet := range map[string]string{"randNumeric": digits, "randAlpha": letters, "randAlphaNum": letters + digits} {
		own := f[name].(func(int) string)
		f[name] = func(n int) string {
			if i.env.Rand == nil {
				return own(n)
			}
			return randomText(i.env.Rand, alphabet, n)
		}
	}
	number, unique := f["randInt"].(func(int, int) int), f["uuidv4"].(func() string)
	f["randInt"] = func(from, to int) int {
		if i.env.Rand == nil || to <= from {
			return number(from, to)
		}
		return from + i.env.Rand.IntN(to-from)
	}
	f["uuidv4"] = func() string {
		if i.env.Rand == nil {
			return unique()
		}
		hi, lo := i.env.Rand.Uint64()&^0xf000|0x4000, i.env.Rand.Uint64()&^(3<<62)|1<<63
		return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", hi>>32, hi>>16&0xffff, hi&0xffff, lo>>48, lo&0xffffffffffff)
	}
}

func randomText(rng *rand.Rand, alphabet string, n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte(alphabet[rng.IntN(len(alphabet))])
	}
	return b.String()
}

// NodeCondition is a condition that a healthy node reports.
type NodeCondition struct{ Type, Status, Reason, Message string }

// NodeConditions returns the conditions of a healthy node.
func NodeConditions() []NodeCondition {
	return []NodeCondition{
		{"Ready", "True", "KubeletReady", "kubelet is posting ready status"},
		{"MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"},
		{"DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
		{"PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"},
		{"NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"},
	}
}

// nodeConditions returns them as templates have them.
func nodeConditions() (out []any) {
	for _, c := range NodeConditions() {
		out = append(out, map[string]any{"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message})
	}
	return out
}
