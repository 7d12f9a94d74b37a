// Package dialect is the language of kube-burner's object templates: its functions,
// variables and labels.
package dialect

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	texttemplate "text/template"

	"github.com/Masterminds/sprig/v3"

	"github.com/windtunnel/windtunnel/internal/template"
)

// Name is what a scenario calls the dialect.
const Name = "kube-burner"

// Entries of Vars.With that mean something to this dialect. The
// others are variables and nothing else.
const (
	// ReadFileVariable is where the function ReadFile looks: a map from path to
	// content. A body is rendered far from the files that it was written beside.
	ReadFileVariable = "ReadFile"
	// ObjectIndexVariable is the number of the object among those of its job,
	// from 0. Where it is set, objects get the labels kube-burner.io/*, and so
	// do the pods of their templates, as kube-burner does it; a patch has none.
	ObjectIndexVariable = "ObjectIndex"
	// ObjectGroupVariable is the object's group, for the label of that name.
	ObjectGroupVariable = "ObjectGroup"
)

// NoFileError says that a template calls ReadFile for a file that is not in
// With[ReadFileVariable].
type NoFileError struct{ Path string }

// Error names the file.
func (e *NoFileError) Error() string {
	return fmt.Sprintf("ReadFile: %s is not in with.%s", e.Path, ReadFileVariable)
}

// New returns the dialect. What an object
// is called stands in its template. .JobName, .UUID, .RunID and what inputVars
// adds come from With, and With wins over .Iteration and .Replica.
func New() template.Dialect {
	return template.Dialect{
		Names:   ".Iteration .Replica",
		Missing: "error", Random: []string{"randInt", "randAlpha", "payload", "randAlphaNum", "randNumeric", "randAscii", "randBytes", "shuffle", "uuidv4"},
		Aliases: []string{"Iteration"}, LastWins: true,
		Functions: func(s template.Source) texttemplate.FuncMap {
			out := Functions(s)
			out["ReadFile"] = func(path string) (string, error) { return readFile(s, path) }
			return out
		},
		Variables: func(v template.Vars, data map[string]any) {
			for name, value := range data {
				data[name] = kubeBurnerValue(value)
			}
			byDefault(data, "Iteration", v.Index)
			byDefault(data, "Replica", v.ReplicaNumber())
		},
		Finish: setKubeBurnerLabels,
	}
}

func byDefault(data map[string]any, name string, value any) {
	if _, ok := data[name]; !ok {
		data[name] = value
	}
}

// kubeBurnerValue returns a value as kube-burner's templates get it: numbers are int, and
// maps and lists are their own, because set and merge change them.
func kubeBurnerValue(value any) any {
	switch value := value.(type) {
	case int64:
		return int(value)
	case map[string]any:
		out := make(map[string]any, len(value))
		for k, v := range value {
			out[k] = kubeBurnerValue(v)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, v := range value {
			out[i] = kubeBurnerValue(v)
		}
		return out
	}
	return value
}

// Functions returns sprig's functions without clocks, dates, keys, passwords and the
// network, and kube-burner's own; those that read files or the environment are the
// caller's to add.
func Functions(s template.Source) texttemplate.FuncMap {
	all, out := sprig.GenericFuncMap(), s.OwnFunctions()
	for name := range strings.FieldsSeq(`push mustPush set unset merge mergeOverwrite mustMerge mustMergeOverwrite
		osBase osClean osDir osExt osIsAbs hello`) {
		out[name] = all[name]
	}
	out["seq"] = numberSequence
	drawText := out["randInt"].(func(from, to int) (string, error))
	out["randInt"] = func(from, to int) (int, error) {
		text, err := drawText(from, to)
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(text)
	}
	out["randAlphaNum"] = drawFrom(s, "randAlphaNum", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
	out["randNumeric"] = drawFrom(s, "randNumeric", "0123456789")
	out["randAscii"] = drawFrom(s, "randAscii", printableASCII())
	out["randBytes"] = func(n int) (string, error) { return randBytes(s, n) }
	out["shuffle"] = func(text string) string { return shuffleText(s, text) }
	out["uuidv4"] = func() string { return randomUUID(s) }
	out["Binomial"], out["IndexToCombination"] = binomialCoefficient, nthCombination
	out["GetSubnet24"], out["GetIPAddress"] = nthSubnet24, addressesOf
	return out
}

// numberSequence writes the numbers from first to last, both included, as the
// command seq does: seq LAST, seq FIRST LAST or seq FIRST STEP LAST.
func numberSequence(args ...int) (string, error) {
	from, step, to := 1, 1, 0
	switch len(args) {
	case 1:
		to = args[0]
	case 2:
		from, to = args[0], args[1]
	case 3:
		from, step, to = args[0], args[1], args[2]
	default:
		return "", nil
	}
	switch {
	case step == 0:
		return "", nil
	case len(args) < 3 && to < from:
		step = -1
	}
	list, err := template.CountSteps(from, to+step/max(step, -step), step)
	return strings.Trim(fmt.Sprint(list), "[]"), err
}

// printableASCII are the characters of ASCII from the blank to the tilde.
func printableASCII() string {
	var b strings.Builder
	for c := byte(' '); c <= '~'; c++ {
		b.WriteByte(c)
	}
	return b.String()
}

// drawFrom makes a function that gives so many characters of an alphabet.
func drawFrom(s template.Source, name, alphabet string) func(n int) (string, error) {
	return func(n int) (string, error) {
		if n < 0 || n > template.MaxOutput {
			return "", fmt.Errorf("%s %d: not in 0 to %d", name, n, template.MaxOutput)
		}
		random, out := s.NewRandom(), make([]byte, n)
		for i := range out {
			out[i] = alphabet[random.Below(len(alphabet))]
		}
		return string(out), nil
	}
}

// randBytes gives so many bytes in base64.
func randBytes(s template.Source, n int) (string, error) {
	if n < 0 || n > template.MaxOutput {
		return "", fmt.Errorf("randBytes %d: not in 0 to %d", n, template.MaxOutput)
	}
	return base64.StdEncoding.EncodeToString(randomBytes(s, n)), nil
}

func randomBytes(s template.Source, n int) []byte {
	random, out := s.NewRandom(), make([]byte, n)
	for i := range out {
		out[i] = byte(random.Next())
	}
	return out
}

func shuffleText(s template.Source, text string) string {
	random, r := s.NewRandom(), []rune(text)
	for i := len(r) - 1; i > 0; i-- {
		j := random.Below(i + 1)
		r[i], r[j] = r[j], r[i]
	}
	return string(r)
}

// randomUUID gives a UUID of version 4 (RFC 9562, section 5.4), but for its source.
func randomUUID(s template.Source) string {
	b := randomBytes(s, 16)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	text := hex.EncodeToString(b)
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// binomialCoefficient is the number of ways to choose k of n things.
func binomialCoefficient(n, k int) (int, error) {
	if k < 0 || n < k {
		return 0, fmt.Errorf("Binomial %d %d: the numbers are not n >= k >= 0", n, k)
	}
	b := 1
	for i := 1; i <= min(k, n-k); i++ {
		next := b * (n - i + 1)
		if next/b != n-i+1 {
			return 0, fmt.Errorf("Binomial %d %d: the result is beyond 64 bits", n, k)
		}
		b = next / i
	}
	return b, nil
}

// nthCombination returns the combination of k of the numbers below n that stands
// at an index when all of them are in lexicographic order. dst is for its
// result in kube-burner, and of no use here.
func nthCombination(_ []int, index, n, k int) ([]int, error) {
	all, err := binomialCoefficient(n, k)
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= all {
		return nil, fmt.Errorf("IndexToCombination: index %d is not in 0 to %d", index, all-1)
	}
	out := make([]int, 0, k)
	for v := 0; len(out) < k; v++ {
		with, _ := binomialCoefficient(n-v-1, k-len(out)-1) // combinations that go on with v
		if index < with {
			out = append(out, v)
			continue
		}
		index -= with
	}
	return out, nil
}

// nthSubnet24 returns the i-th network of 256 addresses, from 1.0.0.0 on.
func nthSubnet24(i int) string {
	address := netip.AddrFrom4([4]byte{byte(i>>16 + 1), byte(i >> 8), byte(i), 0})
	return netip.PrefixFrom(address, 24).String()
}

// addressesOf returns those of a list, with a blank between them, that belong to
// an iteration which takes so many.
func addressesOf(list string, iteration, each int) (string, error) {
	all := strings.Split(list, " ")
	from, to := iteration*each, (iteration+1)*each
	if iteration < 0 || each < 0 || to > len(all) {
		return "", fmt.Errorf("GetIPAddress: iteration %d needs addresses %d to %d of %d", iteration, from, to-1, len(all))
	}
	return strings.Join(all[from:to], " "), nil
}

func readFile(s template.Source, path string) (string, error) {
	files, _ := s.With(ReadFileVariable).(map[string]any)
	if text, ok := files[path].(string); ok {
		return text, nil
	}
	return "", &NoFileError{path}
}

// setKubeBurnerLabels sets the labels by which kube-burner finds what it made. Those that
// stand in the template win.
func setKubeBurnerLabels(object []byte, v template.Vars) ([]byte, error) {
	index, ok := v.With[ObjectIndexVariable]
	if !ok {
		return object, nil
	}
	labels := map[string]any{
		"kube-burner.io/index": fmt.Sprint(index), "kube-burner.io/replica": strconv.Itoa(v.ReplicaNumber()),
		"kube-burner.io/job-iteration": strconv.Itoa(v.Index),
	}
	for label, name := range map[string]string{
		"uuid": "UUID", "runid": "RunID", "job": "JobName", "group": ObjectGroupVariable, "job-iteration": "Iteration", "replica": "Replica",
	} {
		if value, ok := v.With[name]; ok {
			labels["kube-burner.io/"+label] = fmt.Sprint(value)
		}
	}
	tree := map[string]any{}
	in := json.NewDecoder(bytes.NewReader(object))
	in.UseNumber()
	if err := in.Decode(&tree); err != nil {
		return nil, err
	}
	if err := addLabels(tree, labels); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(tree)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// addLabels puts labels on an object and on what it makes by itself.
func addLabels(object, labels map[string]any) error {
	own, err := mapAt(object, "metadata", "labels")
	if err != nil {
		return err
	}
	for name, value := range labels {
		byDefault(own, name, value)
	}
	kind, _ := object["kind"].(string)
	var places [][]string
	switch kind {
	case "StatefulSet":
		places = [][]string{{"spec", "template", "metadata", "labels"}, {"spec", "selector", "matchLabels"}}
	case "Deployment", "DaemonSet", "ReplicaSet", "VirtualMachine":
		places = [][]string{{"spec", "template", "metadata", "labels"}}
	}
	for _, place := range places {
		to, err := mapAt(object, place...)
		if err != nil {
			return err
		}
		for name, value := range own {
			byDefault(to, name, value)
		}
	}
	if kind == "VirtualMachine" {
		return labelVolumes(object, own)
	}
	return nil
}

// labelVolumes labels what a virtual machine makes beside its pod.
func labelVolumes(machine, labels map[string]any) error {
	spec, _ := machine["spec"].(map[string]any)
	volumes, _ := spec["dataVolumeTemplates"].([]any)
	for _, v := range volumes {
		volume, ok := v.(map[string]any)
		if !ok {
			return errors.New("spec.dataVolumeTemplates: not a list of objects")
		}
		to, err := mapAt(volume, "metadata", "labels")
		if err != nil {
			return err
		}
		for name, value := range labels {
			byDefault(to, name, value)
		}
	}
	return nil
}

// mapAt returns the map at a path, and makes it where there is none.
func mapAt(m map[string]any, path ...string) (map[string]any, error) {
	for i, name := range path {
		if m[name] == nil {
			m[name] = map[string]any{}
		}
		inner, ok := m[name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: not a mapping", strings.Join(path[:i+1], "."))
		}
		m = inner
	}
	return m, nil
}
