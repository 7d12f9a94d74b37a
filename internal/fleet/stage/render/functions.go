package render

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
)

// functions returns all functions, those of the world bound to the instance.
func (i *instance) functions() template.FuncMap {
	f := sprig.TxtFuncMap()
	for _, name := range []string{"env", "expandenv", "getHostByName"} {
		delete(f, name)
	}
	f["Quote"], f["YAML"], f["NodeConditions"] = quote, toYAML, nodeConditions
	f["Now"] = i.orElse("Now", func() any { return i.env.Now.Format(time.RFC3339Nano) })
	f["now"] = i.orElse("now", func() any { return i.env.Now })
	f["StartTime"] = i.orElse("StartTime", func() any { return i.env.Start.Format(time.RFC3339Nano) })
	f["Version"] = i.orElse("Version", func() any { return i.env.Version })
	for _, name := range []string{"NodeIP", "NodeName", "NodePort", "PodIP", "NodeIPWith", "PodIPWith"} {
		f[name] = i.orElse(name, func() any { return "" })
	}
	for _, name := range []string{"NodeIPsWith", "PodIPsWith"} {
		f[name] = i.orElse(name, func() any { return []any(nil) })
	}
	f["ago"] = func(at time.Time) string { return i.env.Now.Sub(at).Round(time.Second).String() }
	i.random(f)
	return f
}

// orElse calls the env's function of that name, or another without one.
func (i *instance) orElse(name string, other func() any) Function {
	return func(args ...any) (any, error) {
		if f := i.env.Functions[name]; f != nil {
			return f(args...)
		}
		return other(), nil
	}
}

// random binds sprig's random functions to the env's chance, so that a seed
// repeats them.
func (i *instance) random(f template.FuncMap) {
	const digits, letters = "0123456789", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for name, alphabet := range map[string]string{"randNumeric": digits, "randAlpha": letters, "randAlphaNum": letters + digits} {
		own := f[name].(func(int) string)
		f[name] = func(n int) string {
			if i.env.Rand == nil {
				return own(n)
			}
			return pick(i.env.Rand, alphabet, n)
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

func pick(rng *rand.Rand, alphabet string, n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte(alphabet[rng.IntN(len(alphabet))])
	}
	return b.String()
}

// nodeConditions returns the conditions of a healthy node.
func nodeConditions() []any {
	condition := func(kind, status, reason, message string) any {
		return map[string]any{"type": kind, "status": status, "reason": reason, "message": message}
	}
	return []any{
		condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
		condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		condition("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
	}
}
