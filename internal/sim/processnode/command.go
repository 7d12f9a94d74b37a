package processnode

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/windtunnel/windtunnel/internal/machine/process"
)

// errMissing says that a pod names an object that is not there. It may come.
var errMissing = errors.New("not found")

// place is where a container's process runs.
type place struct {
	home     string              // its private folder
	volume   func(string) string // folder of a volume, by its name
	hostIP   string
	capacity corev1.ResourceList // of the node
}

// mount is a path that containers have, and the folder that it is here.
type mount struct{ path, folder string }

type mounts []mount

// mountsOf are the mounts of a container, those of longer paths first.
func mountsOf(c *corev1.Container, folder func(corev1.VolumeMount) string) mounts {
	var out mounts
	for _, m := range c.VolumeMounts {
		out = append(out, mount{filepath.Clean(m.MountPath), folder(m)})
	}
	slices.SortStableFunc(out, func(a, b mount) int { return cmp.Compare(len(b.path), len(a.path)) })
	return out
}

// subPathOf returns what a mount shows of its volume: empty is all of it.
func subPathOf(m corev1.VolumeMount, env variables) (string, error) {
	path := cmp.Or(m.SubPath, expandVariables(m.SubPathExpr, env))
	if path != "" && (!filepath.IsLocal(path) || m.SubPathExpr != "" && strings.Contains(path, "$(")) {
		return "", fmt.Errorf("subPath %q leads out of volume %s, or names a variable that is not known", path, m.Name)
	}
	return path, nil
}

// relocatePaths has every path of a mount in a text be that of its folder. A process has no
// file system of its own, so what a container finds at /etc/x it has to be told of
// elsewhere. A path is one from its first slash, before which there is no part of a
// name, to what cannot be in a name.
func (all mounts) relocatePaths(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		m, ok := all.mountAt(text, i)
		if !ok {
			b.WriteByte(text[i])
			i++
			continue
		}
		b.WriteString(m.folder)
		i += len(m.path)
	}
	return b.String()
}

// mountAt returns the mount whose path, or one below it, begins at a position.
func (all mounts) mountAt(text string, i int) (mount, bool) {
	if text[i] != '/' || i > 0 && (inName(text[i-1]) || text[i-1] == '/') {
		return mount{}, false
	}
	for _, m := range all {
		rest, ok := strings.CutPrefix(text[i:], m.path)
		if ok && (rest == "" || !inName(rest[0])) {
			return m, true
		}
	}
	return mount{}, false
}

// inName tells the characters of file names as they are usual.
func inName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}

// commandOf makes of a container the process that it is here. What it takes from other
// objects is in found.
func (p programs) commandOf(pod *corev1.Pod, c *corev1.Container, found *sources, at place) (process.Spec, error) {
	executable, err := p.executableOf(c)
	if err != nil {
		return process.Spec{}, err
	}
	env, err := environmentOf(pod, c, found, at)
	m := mountsOf(c, func(m corev1.VolumeMount) string {
		path, e := subPathOf(m, env)
		err = errors.Join(err, e)
		return filepath.Join(at.volume(m.Name), path)
	})
	if err != nil {
		return process.Spec{}, err
	}
	spec := process.Spec{Path: executable, Dir: at.home, Limits: limitsOf(c)}
	if c.WorkingDir != "" {
		spec.Dir = m.relocatePaths(c.WorkingDir)
	}
	for _, arg := range slices.Concat(c.Command[min(1, len(c.Command)):], c.Args) {
		spec.Args = append(spec.Args, m.relocatePaths(expandVariables(arg, env)))
	}
	// What an image and its runtime would set. Files without a path of their own end
	// with the pod.
	spec.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME=" + hostnameOf(pod), "HOME=" + at.home, "TMPDIR=" + at.home}
	if found.kubeconfig != "" {
		spec.Env = append(spec.Env, "KUBECONFIG="+found.kubeconfig)
	}
	for _, e := range env {
		value := e.value
		if e.written {
			value = m.relocatePaths(value)
		}
		if strings.ContainsRune(value, 0) {
			return process.Spec{}, fmt.Errorf("env %s holds a zero byte", e.name)
		}
		spec.Env = append(spec.Env, e.name+"="+value)
	}
	return spec, nil
}

func hostnameOf(pod *corev1.Pod) string { return cmp.Or(pod.Spec.Hostname, pod.Name) }

// limitsOf are the bounds that a control group puts on a container.
func limitsOf(c *corev1.Container) process.Limits {
	return process.Limits{CPU: c.Resources.Limits.Cpu().AsApproximateFloat64(), Memory: uint64(max(0, c.Resources.Limits.Memory().Value()))}
}

// variable is one of a container's environment.
type variable struct {
	name, value string
	written     bool // in the pod, and not in another object
}

type variables []variable

// setVariable sets a variable: what comes later wins, in the place of the first.
func (all *variables) setVariable(v variable) {
	for i, known := range *all {
		if known.name == v.name {
			(*all)[i] = v
			return
		}
	}
	*all = append(*all, v)
}

// environmentOf is what a container's pod says of it, envFrom first.
func environmentOf(pod *corev1.Pod, c *corev1.Container, found *sources, at place) (variables, error) {
	var out variables
	for _, from := range c.EnvFrom {
		var data map[string]string
		var err error
		switch {
		case from.ConfigMapRef != nil:
			data, err = found.configMap(from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		case from.SecretRef != nil:
			data, err = found.secretData(from.SecretRef.Name, from.SecretRef.Optional)
		}
		if err != nil {
			return nil, err
		}
		for _, key := range sortedKeys(data) {
			if steersLoader(from.Prefix + key) {
				return nil, fmt.Errorf("envFrom: %s would have another program run", from.Prefix+key)
			}
			out.setVariable(variable{name: from.Prefix + key, value: data[key]})
		}
	}
	for _, e := range c.Env {
		v := variable{name: e.Name, value: expandVariables(e.Value, out), written: true}
		if e.ValueFrom != nil {
			value, there, err := valueFrom(e.ValueFrom, pod, c, found, at)
			if err != nil {
				return nil, fmt.Errorf("env %s: %w", e.Name, err)
			}
			if !there {
				continue
			}
			v.value, v.written = value, false
		}
		out.setVariable(v)
	}
	return out, nil
}

// valueFrom is a value that stands elsewhere; there is false where it may be missing
// and is.
func valueFrom(from *corev1.EnvVarSource, pod *corev1.Pod, c *corev1.Container, found *sources, at place) (value string, there bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = podField(from.FieldRef.FieldPath, pod, at)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err = resourceField(from.ResourceFieldRef, pod, c, at)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		data, err := found.configMap(r.Name, r.Optional)
		return takeKey(data, r.Key, "config map "+r.Name, r.Optional, err)
	case from.SecretKeyRef != nil:
		r := from.SecretKeyRef
		data, err := found.secretData(r.Name, r.Optional)
		return takeKey(data, r.Key, "secret "+r.Name, r.Optional, err)
	}
	return "", false, errors.New("its source is not known")
}

// takeKey takes one value of an object's.
func takeKey(data map[string]string, name, of string, optional *bool, err error) (string, bool, error) {
	value, ok := data[name]
	if err == nil && !ok && (optional == nil || !*optional) {
		err = fmt.Errorf("key %s of %s: %w", name, of, errMissing)
	}
	return value, ok, err
}

// podField is a field of a pod, as the downward API has them.
func podField(fieldPath string, pod *corev1.Pod, at place) (string, error) {
	if name, key, ok := strings.Cut(fieldPath, "['"); ok {
		key = strings.TrimSuffix(key, "']")
		switch name {
		case "metadata.labels":
			return pod.Labels[key], nil
		case "metadata.annotations":
			return pod.Annotations[key], nil
		}
	}
	switch fieldPath {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return formatPairs(pod.Labels), nil
	case "metadata.annotations":
		return formatPairs(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs":
		return at.hostIP, nil // a pod is where its host is
	}
	return "", fmt.Errorf("field %s is not known", fieldPath)
}

// formatPairs are labels as a file of the downward API has them.
func formatPairs(of map[string]string) string {
	var lines []string
	for _, k := range sortedKeys(of) {
		lines = append(lines, k+"="+strconv.Quote(of[k]))
	}
	return strings.Join(lines, "\n")
}

// resourceField is a request or limit of a container; one without a limit has the node's.
func resourceField(r *corev1.ResourceFieldSelector, pod *corev1.Pod, c *corev1.Container, at place) (string, error) {
	if r.ContainerName != "" {
		i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == r.ContainerName })
		if i < 0 {
			return "", fmt.Errorf("container %s is not known", r.ContainerName)
		}
		c = &pod.Spec.Containers[i]
	}
	which, name, _ := strings.Cut(r.Resource, ".")
	var q resource.Quantity
	var there bool
	switch which {
	case "limits":
		if q, there = c.Resources.Limits[corev1.ResourceName(name)]; !there {
			q = at.capacity[corev1.ResourceName(name)]
		}
	case "requests":
		q = c.Resources.Requests[corev1.ResourceName(name)]
	default:
		return "", fmt.Errorf("resource %s is not known", r.Resource)
	}
	divisor := r.Divisor.AsApproximateFloat64()
	if divisor == 0 {
		divisor = 1
	}
	return strconv.FormatInt(int64(math.Ceil(q.AsApproximateFloat64()/divisor)), 10), nil
}

// expandVariables replaces $(NAME) by a variable's value; of one that is not known it stays, and
// $$ is a dollar.
func expandVariables(text string, env variables) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "$")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		text = rest
		if after, two := strings.CutPrefix(rest, "$"); two {
			b.WriteByte('$')
			text = after
			continue
		}
		name, after, closed := strings.Cut(strings.TrimPrefix(rest, "("), ")")
		i := slices.IndexFunc(env, func(v variable) bool { return v.name == name })
		if !strings.HasPrefix(rest, "(") || !closed || i < 0 {
			b.WriteByte('$')
			continue
		}
		b.WriteString(env[i].value)
		text = after
	}
}
