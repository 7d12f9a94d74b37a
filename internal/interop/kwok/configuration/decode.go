package configuration

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/interop/kwok"
)

// addDocument takes a document into the objects; false when its kind is none of them.
func (o *Objects) addDocument(d kwok.Document) (known bool, err error) {
	k, known := kindOf(d.Kind)
	if !known {
		return false, nil
	}
	switch {
	case d.APIVersion != APIVersion:
		return true, d.Fault("apiVersion", fmt.Errorf("want %s, got %q", APIVersion, d.APIVersion))
	case d.Name == "":
		return true, d.Fault("metadata.name", errors.New("is missing"))
	case !k.scoped && d.Namespace != "":
		return true, d.Fault("metadata.namespace", fmt.Errorf("a %s is in no namespace, got %q", d.Kind, d.Namespace))
	}
	if k.scoped && d.Namespace == "" {
		d.Namespace = "default"
	}
	return true, o.decodeDocument(d)
}

func (o *Objects) decodeDocument(d kwok.Document) error {
	switch d.Kind {
	case KindLogs, KindClusterLogs:
		return takeDocument(&o.Logs, d, "logs", (*checker).checkLog)
	case KindExec, KindClusterExec:
		return takeDocument(&o.Execs, d, "execs", (*checker).checkExec)
	case KindAttach, KindClusterAttach:
		return takeDocument(&o.Attaches, d, "attaches", (*checker).checkAttach)
	case KindPortForward, KindClusterPortForward:
		return takeDocument(&o.PortForwards, d, "forwards", (*checker).checkForward)
	case KindResourceUsage, KindClusterResourceUsage:
		return takeDocument(&o.Usages, d, "usages", (*checker).checkUsage)
	}
	return o.addMetric(d)
}

// takeDocument decodes and checks a document that is about pods, and adds it to the rules
// of its kind. list is the field of its entries. A selector is only for the Cluster
// kinds.
func takeDocument[T any](rules *Rules[T], d kwok.Document, list string, check func(*checker, string, *T)) error {
	spec := reflect.StructOf([]reflect.StructField{
		{Name: "Selector", Type: reflect.TypeFor[*Selector](), Tag: `yaml:"selector"`},
		{Name: "Entries", Type: reflect.TypeFor[[]T](), Tag: reflect.StructTag(fmt.Sprintf("yaml:%q", list))},
	})
	body := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "Spec", Type: spec, Tag: `yaml:"spec"`}}))
	if err := d.Decode(body.Interface()); err != nil {
		return err
	}
	selector, entries := body.Elem().Field(0).Field(0).Interface().(*Selector), body.Elem().Field(0).Field(1).Interface().([]T)
	r := &Rule[T]{Namespace: d.Namespace, Name: d.Name, Selector: selector, Entries: entries, document: d}
	c := checker{fault: r.Fault}
	cluster := strings.HasPrefix(d.Kind, "Cluster")
	if !cluster && selector != nil {
		c.addFault("spec.selector", "a %s is about the pod of its own name; a Cluster%s has a selector", d.Kind, d.Kind)
	}
	for i := range entries {
		check(&c, fmt.Sprintf("spec.%s[%d]", list, i), &entries[i])
	}
	switch {
	case len(c.faults) > 0:
	case cluster:
		rules.Cluster = append(rules.Cluster, r)
	default:
		rules.Pods = append(rules.Pods, r)
	}
	return errors.Join(c.faults...)
}

func (o *Objects) addMetric(d kwok.Document) error {
	var body struct {
		Spec struct {
			Path    string   `yaml:"path"`
			Metrics []Series `yaml:"metrics"`
		} `yaml:"spec"`
	}
	if err := d.Decode(&body); err != nil {
		return err
	}
	m := &Metric{Name: d.Name, Path: body.Spec.Path, Metrics: body.Spec.Metrics, document: d}
	if faults := m.checkMetric(); len(faults) > 0 {
		return errors.Join(faults...)
	}
	for _, other := range o.Metrics {
		if other.Path == m.Path {
			return m.Fault("spec.path", fmt.Errorf("%s is the path of Metric %s already", m.Path, other.Name))
		}
	}
	o.Metrics = append(o.Metrics, m)
	return nil
}

func (c *checker) checkLog(field string, l *Log) {
	if l.LogsFile != "" || l.PreviousLogsFile == "" {
		c.checkFile(field+".logsFile", l.LogsFile)
	}
	if l.PreviousLogsFile != "" {
		c.checkFile(field+".previousLogsFile", l.PreviousLogsFile)
	}
}

func (c *checker) checkAttach(field string, a *Attach) { c.checkFile(field+".logsFile", a.LogsFile) }

func (c *checker) checkFile(field, name string) {
	switch {
	case name == "":
		c.addFault(field, "is missing")
	case strings.HasSuffix(name, "/") || path.Base(name) == "." || path.Base(name) == "..":
		c.addFault(field, "%q is no file", name)
	}
}

func (c *checker) checkExec(field string, e *Exec) {
	if e.Local == nil {
		return
	}
	for i, v := range e.Local.Envs {
		if v.Name == "" || strings.ContainsAny(v.Name, "=\x00") {
			c.addFault(fmt.Sprintf("%s.local.envs[%d].name", field, i), "%q is no name of a variable", v.Name)
		}
		if strings.Contains(v.Value, "\x00") {
			c.addFault(fmt.Sprintf("%s.local.envs[%d].value", field, i), "holds a zero byte")
		}
	}
	if s := e.Local.SecurityContext; s != nil {
		c.checkID(field+".local.securityContext.runAsUser", s.RunAsUser)
		c.checkID(field+".local.securityContext.runAsGroup", s.RunAsGroup)
	}
}

func (c *checker) checkID(field string, id *int64) {
	if id != nil && (*id < 0 || *id > 1<<32-2) {
		c.addFault(field, "%d is no id of a user or group", *id)
	}
}

func (c *checker) checkForward(field string, f *Forward) {
	for i, p := range f.Ports {
		c.checkPort(fmt.Sprintf("%s.ports[%d]", field, i), p)
	}
	switch {
	case len(f.Command) > 0:
		if f.Command[0] == "" {
			c.addFault(field+".command[0]", "is empty")
		}
	case f.Target == nil:
		c.addFault(field, "want a target or a command")
	default:
		c.checkPort(field+".target.port", f.Target.Port)
		if _, err := netip.ParseAddr(f.Target.Address); err != nil && (f.Target.Address == "" || strings.ContainsAny(f.Target.Address, "/:@ ")) {
			c.addFault(field+".target.address", "%q is neither an IP address nor a name", f.Target.Address)
		}
	}
}

func (c *checker) checkPort(field string, p int32) {
	if p < 1 || p > 65535 {
		c.addFault(field, "want 1 to 65535, got %d", p)
	}
}

func (c *checker) checkUsage(field string, u *Usage) {
	for _, name := range slices.Sorted(maps.Keys(u.Usage)) {
		v := u.Usage[name]
		at := fmt.Sprintf("%s.usage[%q]", field, name)
		switch {
		case v.Value != nil && v.Value.Sign() < 0:
			c.addFault(at+".value", "is below 0: %s", v.Value.String())
		case v.Value == nil && v.Expression == nil:
			c.addFault(at, "want a value or an expression")
		case v.Value == nil:
			c.checkExpression(at+".expression", *v.Expression)
		}
	}
}
