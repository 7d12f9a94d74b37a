package processnode

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// programs are what containers may run.
type programs struct {
	own       string   // this program, which stands for the image of the same name
	verbs     []string // the first arguments that it may have
	allow     []string // other executables
	uid       int64    // as whom all of them run
	namespace string   // of pods that may run
}

// workerVerb is the verb of this program that pods may always run: that of a run's
// workers, for which the node is there. All other verbs run or write what their
// arguments say.
const workerVerb = "worker"

// image is the last part of the name of images that this program stands for.
const image = "windtunnel"

// executableOf returns the program that a container runs.
func (p programs) executableOf(c *corev1.Container) (string, error) {
	ours := imageName(c.Image) == image
	switch {
	case len(c.Command) == 0 && ours:
		return p.own, nil
	case len(c.Command) == 0:
		return "", fmt.Errorf("it has no command, and what image %q would run is not known without the image", c.Image)
	case c.Command[0] == p.own || ours && path.Base(c.Command[0]) == image:
		return p.own, nil
	case slices.Contains(p.allow, filepath.Clean(c.Command[0])):
		return filepath.Clean(c.Command[0]), nil
	}
	return "", fmt.Errorf("%s is not allowed: --allow %s would", c.Command[0], c.Command[0])
}

// checkAllowed returns why a container's program may not run; nil: it may. A verb is compared
// as it is written: nothing is expanded in it that would make another one of it.
func (p programs) checkAllowed(c *corev1.Container) error {
	path, err := p.executableOf(c)
	if err != nil || path != p.own {
		return err
	}
	args := slices.Concat(c.Command[min(1, len(c.Command)):], c.Args)
	if len(args) == 0 {
		return fmt.Errorf("windtunnel has no verb: pods may run %q here", workerVerb)
	}
	if args[0] != workerVerb && !slices.Contains(p.verbs, args[0]) {
		return fmt.Errorf("the verb %q of windtunnel is not allowed: --allow-verb %s allows it", args[0], args[0])
	}
	return nil
}

// steersLoader says whether a variable makes the dynamic linker, a runtime or a shell load
// or run another program than the one that was allowed. The lists are of glibc's
// ld.so(8), Go, bash(1), and the interpreters that scripts name most.
func steersLoader(name string) bool {
	for _, prefix := range []string{"LD_", "BASH_FUNC_", "PYTHON", "PERL5", "RUBY", "NODE_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "PATH", "GODEBUG", "GOCOVERDIR", "GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "MALLOC_TRACE",
		"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "IFS", "PERLLIB",
		"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES":
		return true
	}
	return false
}

// imageName is the last part of an image's repository, without tag and digest.
func imageName(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	ref = path.Base(ref)
	ref, _, _ = strings.Cut(ref, ":")
	return ref
}

// unsupportedReasons says what a pod asks for that processes cannot be given; none: it can run.
// What would only take rights away (dropped capabilities, seccomp, a root that is not
// written) is no reason: processes have the rights of who started the kubelet, which
// docs/how-to/workers.md says.
func (p programs) unsupportedReasons(pod *corev1.Pod) (out []string) {
	s := &pod.Spec
	add := func(bad bool, format string, args ...any) {
		if bad {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(pod.Namespace != p.namespace, "namespace %s: the node runs pods of namespace %s", pod.Namespace, p.namespace)
	add(s.HostPID, "hostPID")
	add(s.HostIPC, "hostIPC")
	add(s.ShareProcessNamespace != nil && *s.ShareProcessNamespace, "shareProcessNamespace")
	add(len(s.HostAliases) > 0, "hostAliases")
	add(s.RuntimeClassName != nil, "runtimeClassName")
	add(s.HostUsers != nil && !*s.HostUsers, "hostUsers: false")
	add(len(s.ResourceClaims) > 0, "resourceClaims")
	add(s.OS != nil && s.OS.Name != corev1.Linux, "another operating system")
	if c := s.SecurityContext; c != nil {
		add(c.RunAsUser != nil && *c.RunAsUser != p.uid, "runAsUser: all processes are of user %d", p.uid)
		add(len(c.Sysctls) > 0, "sysctls")
	}
	for i := range s.Volumes {
		out = append(out, requireLabel("volume", s.Volumes[i].Name)...)
		add(!volumeKnown(&s.Volumes[i]), "volume %s: only configMap, secret, projected, downwardAPI and emptyDir on disk can be had", s.Volumes[i].Name)
	}
	for i := range s.InitContainers {
		c := &s.InitContainers[i]
		add(c.RestartPolicy != nil, "init container %s: restartPolicy", c.Name)
		out = append(out, p.refuseContainer(c, s)...)
	}
	for i := range s.Containers {
		out = append(out, p.refuseContainer(&s.Containers[i], s)...)
	}
	return out
}

func (p programs) refuseContainer(c *corev1.Container, s *corev1.PodSpec) (out []string) {
	add := func(bad bool, format string, args ...any) {
		if bad {
			out = append(out, "container "+c.Name+": "+fmt.Sprintf(format, args...))
		}
	}
	out = append(out, requireLabel("container", c.Name)...)
	err := p.checkAllowed(c)
	add(err != nil, "%v", err)
	add(len(c.Ports) > 0 && !s.HostNetwork, "ports: a process has no network of its own; hostNetwork would do")
	add(c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil, "probes")
	add(c.Lifecycle != nil, "lifecycle hooks")
	add(c.Stdin || c.TTY, "stdin or tty")
	add(len(c.VolumeDevices) > 0, "volumeDevices")
	add(len(c.RestartPolicyRules) > 0, "restartPolicyRules")
	for _, m := range c.VolumeMounts {
		add((m.SubPath != "" || m.SubPathExpr != "") && slices.ContainsFunc(s.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name && v.EmptyDir != nil }), "subPath of volume %s, an emptyDir", m.Name)
		add(m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone, "mountPropagation of volume %s", m.Name)
	}
	add(c.WorkingDir != "" && mountsOf(c, func(m corev1.VolumeMount) string { return m.Name }).relocatePaths(c.WorkingDir) == c.WorkingDir, "workingDir %s lies in no volume", c.WorkingDir)
	for _, e := range c.Env {
		add(steersLoader(e.Name), "env %s would have another program run", e.Name)
		add(e.ValueFrom != nil && e.ValueFrom.FileKeyRef != nil, "env %s from a file", e.Name)
	}
	if sc := c.SecurityContext; sc != nil {
		add(sc.Privileged != nil && *sc.Privileged, "privileged")
		add(sc.RunAsUser != nil && *sc.RunAsUser != p.uid, "runAsUser: all processes are of user %d", p.uid)
		add(sc.Capabilities != nil && len(sc.Capabilities.Add) > 0, "added capabilities")
	}
	return out
}

// requireLabel says that a name is no DNS label, as API servers want names of volumes and
// containers to be. They become names of files.
func requireLabel(what, name string) []string {
	if len(validation.IsDNS1123Label(name)) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the name %q of a %s is no DNS label", cmp.Or(name, " "), what)}
}

// volumeKnown says whether a volume is one that files of a private folder can be.
func volumeKnown(v *corev1.Volume) bool {
	switch {
	case v.ConfigMap != nil, v.Secret != nil, v.DownwardAPI != nil:
		return true
	case v.EmptyDir != nil:
		return v.EmptyDir.Medium == corev1.StorageMediumDefault
	case v.Projected != nil:
		return !slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.ConfigMap == nil && s.Secret == nil && s.DownwardAPI == nil && s.ServiceAccountToken == nil
		})
	}
	return false
}
