package processnode

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

var known = programs{own: "/own/windtunnel", verbs: []string{"version"}, allow: []string{"/bin/sh"}, uid: 7, namespace: "ns"}

// podOf reads a pod's spec; a container without a name is c, one without an image
// windtunnel, and one of windtunnel without a command or arguments the verb worker.
func podOf(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	p.Name, p.Namespace, p.UID, p.Labels = "p", "ns", "u", map[string]string{"a/b": "label"}
	repotest.NoError(t, yaml.UnmarshalStrict([]byte(spec), &p.Spec))
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if c.Name == "" {
			c.Name = "c"
		}
		if c.Image == "" {
			c.Image = "registry:5000/a/windtunnel:v1@sha256:0"
		}
		if imageName(c.Image) == image && len(c.Command)+len(c.Args) == 0 {
			c.Args = []string{"worker"}
		}
	}
	return p
}

func TestRefusals(t *testing.T) {
	for spec, want := range map[string]string{ // the reason; empty: it runs
		`{containers: [{args: [version]}]}`:                                                                                "",
		`{containers: [{command: [/windtunnel, version]}]}`:                                                                "",
		`{containers: [{image: other, command: [/bin/sh]}]}`:                                                               "",
		`{containers: [{image: other, command: [/bin/../bin/sh]}]}`:                                                        "",
		`{containers: [{image: nginx}]}`:                                                                                   "no command",
		`{containers: [{image: nginx, command: [/windtunnel]}]}`:                                                           "--allow /windtunnel",
		`{containers: [{command: [/bin/ls]}]}`:                                                                             "--allow /bin/ls",
		`{containers: [{command: [sh]}]}`:                                                                                  "sh is not allowed",
		`{containers: [{ports: [{containerPort: 80}]}]}`:                                                                   "ports",
		`{hostNetwork: true, containers: [{ports: [{containerPort: 80}]}]}`:                                                "",
		`{containers: [{livenessProbe: {exec: {command: [a]}}}]}`:                                                          "probes",
		`{containers: [{securityContext: {privileged: true}}]}`:                                                            "privileged",
		`{containers: [{securityContext: {runAsUser: 8}}]}`:                                                                "runAsUser",
		`{containers: [{securityContext: {runAsUser: 7, runAsNonRoot: true, capabilities: {drop: [ALL]}}}]}`:               "",
		`{containers: [{securityContext: {capabilities: {add: [NET_ADMIN]}}}]}`:                                            "capabilities",
		`{containers: [{lifecycle: {preStop: {sleep: {seconds: 1}}}}]}`:                                                    "lifecycle",
		`{containers: [{tty: true}]}`:                                                                                      "tty",
		`{containers: [{workingDir: /x}]}`:                                                                                 "workingDir",
		`{containers: [{workingDir: /x/y, volumeMounts: [{name: v, mountPath: /x}]}], volumes: [{name: v, emptyDir: {}}]}`: "",
		`{containers: [{volumeMounts: [{name: v, mountPath: /x, subPath: a}]}], volumes: [{name: v, emptyDir: {}}]}`:       "subPath",
		`{containers: [{}], volumes: [{name: v, hostPath: {path: /}}]}`:                                                    "volume v",
		`{containers: [{}], volumes: [{name: v, emptyDir: {medium: Memory}}]}`:                                             "volume v",
		`{containers: [{}], initContainers: [{name: i, image: windtunnel, args: [worker], restartPolicy: Always}]}`:        "init container i",
		`{hostPID: true, containers: [{}]}`:                                                                                "hostPID",
		`{containers: [{command: [/own/windtunnel]}]}`:                                                                     "no verb",
		`{containers: [{args: [run, /cfg/s.yaml]}]}`:                                                                       `the verb "run" of windtunnel is not allowed: --allow-verb run`,
		`{containers: [{command: [/own/windtunnel, hollow]}]}`:                                                             `--allow-verb hollow`,
		`{containers: [{command: [windtunnel], args: [--log-level, run]}]}`:                                                `the verb "--log-level"`,
		`{containers: [{args: [$(VERB)], env: [{name: VERB, value: run}]}]}`:                                               `the verb "$(VERB)"`,
		`{containers: [{args: [worker]}], initContainers: [{name: i, image: windtunnel, args: [run]}]}`:                    `container i: the verb "run"`,
		`{containers: [{env: [{name: LD_PRELOAD, value: /v/x.so}]}]}`:                                                      "env LD_PRELOAD",
		`{containers: [{image: other, command: [/bin/sh], env: [{name: BASH_ENV, value: x}]}]}`:                            "env BASH_ENV",
		`{containers: [{env: [{name: GODEBUG, value: a=b}]}]}`:                                                             "env GODEBUG",
		`{containers: [{env: [{name: LANG, value: C}]}]}`:                                                                  "",
		`{containers: [{name: ../../x}]}`:                                                                                  "no DNS label",
		`{containers: [{}], volumes: [{name: ../../../../out, configMap: {name: m}}]}`:                                     "no DNS label",
		`{securityContext: {runAsUser: 0}, containers: [{}]}`:                                                              "runAsUser",
	} {
		got := known.unsupportedReasons(podOf(t, spec))
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			t.Errorf("%s is refused for %q, want %q", spec, got, want)
		}
	}
}

func TestRelocation(t *testing.T) {
	m := mountsOf(&corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "a", MountPath: "/etc/x/"}, {Name: "b", MountPath: "/etc/x/deep"}}},
		func(m corev1.VolumeMount) string { return "/v/" + m.Name })
	for text, want := range map[string]string{
		"":                        "",
		"/etc/x":                  "/v/a",
		"--file=/etc/x/f":         "--file=/v/a/f",
		"cat /etc/x/f >/etc/x/g":  "cat /v/a/f >/v/a/g",
		"/etc/x/deep/f":           "/v/b/f",
		"/etc/x/deeper":           "/v/a/deeper",
		"/etc/xy":                 "/etc/xy",
		"/root/etc/x":             "/root/etc/x",
		"https://host/etc/x":      "https://host/etc/x",
		"/etc/x:/etc/x/deep:/usr": "/v/a:/v/b:/usr",
	} {
		if got := m.relocatePaths(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestCommand(t *testing.T) {
	pod := podOf(t, `
nodeName: here
containers:
- command: [/bin/sh, -c]
  args: ["echo $(NAME) $(NOT) $$(NAME) $(PATHS)"]
  envFrom: [{configMapRef: {name: m}, prefix: M_}, {secretRef: {name: gone, optional: true}}]
  env:
  - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  - {name: LABEL, valueFrom: {fieldRef: {fieldPath: "metadata.labels['a/b']"}}}
  - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
  - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
  - {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
  - {name: KEY, valueFrom: {secretKeyRef: {name: s, key: k}}}
  - {name: NONE, valueFrom: {secretKeyRef: {name: s, key: other, optional: true}}}
  - {name: PATHS, value: "/data/$(NAME)"}
  - {name: M_a, value: mine}
  resources: {limits: {cpu: 1500m, memory: 64Mi}}
  volumeMounts: [{name: v, mountPath: /data}]
volumes: [{name: v, emptyDir: {}}]
`)
	found := &sources{
		configMaps: map[string]map[string]string{"m": {"a": "1", "b": "/data"}},
		secrets:    map[string]map[string]string{"s": {"k": "secret"}},
	}
	at := place{home: "/h", volume: func(name string) string { return "/vol/" + name }}
	spec := repotest.Must(known.commandOf(pod, &pod.Spec.Containers[0], found, at))(t)
	if want := []string{"-c", "echo p $(NOT) $(NAME) /vol/v/p"}; spec.Path != "/bin/sh" || !reflect.DeepEqual(spec.Args, want) || spec.Dir != "/h" {
		t.Errorf("%s %q in %s, want %q", spec.Path, spec.Args, spec.Dir, want)
	}
	if spec.Limits.CPU != 1.5 || spec.Limits.Memory != 64<<20 {
		t.Errorf("limits %+v", spec.Limits)
	}
	// What another object says is not ours to change: M_b stays as it is there.
	want := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME=p", "HOME=/h", "TMPDIR=/h",
		"M_a=mine", "M_b=/data", "NAME=p", "LABEL=label", "NODE=here", "CPU=2", "MEMORY=64", "KEY=secret", "PATHS=/vol/v/p",
	}
	if !reflect.DeepEqual(spec.Env, want) {
		t.Errorf("environment\n%q, want\n%q", spec.Env, want)
	}
	delete(found.secrets, "s")
	if _, err := known.commandOf(pod, &pod.Spec.Containers[0], found, at); !errors.Is(err, errMissing) {
		t.Errorf("without the secret: %v", err)
	}
}

func TestFilesOfVolumes(t *testing.T) {
	found := &sources{
		configMaps: map[string]map[string]string{"m": {"a": "1", "b": "2"}},
		secrets:    map[string]map[string]string{"s": {"k": "secret"}},
		tokens:     map[string]string{"v/token": "t"},
	}
	for text, want := range map[string]map[string]file{
		`{configMap: {name: m, defaultMode: 0755}}`:                      {"a": {"1", 0o700}, "b": {"2", 0o700}},
		`{configMap: {name: m, items: [{key: a, path: x/y}]}}`:           {"x/y": {"1", 0o600}},
		`{configMap: {name: other, optional: true}}`:                     {},
		`{configMap: {name: other}}`:                                     nil,
		`{configMap: {name: m, items: [{key: c, path: x}]}}`:             nil,
		`{configMap: {name: m, items: [{key: a, path: ../../x}]}}`:       nil,
		`{secret: {secretName: s, items: [{key: k, path: k, mode: 0}]}}`: {"k": {"secret", 0o400}},
		`{emptyDir: {}}`: {},
		`{projected: {sources: [{serviceAccountToken: {path: token}}, {secret: {name: s}}, {downwardAPI: {items: [{path: l, fieldRef: {fieldPath: metadata.labels}}]}}]}}`: {
			"token": {"t", 0o600}, "k": {"secret", 0o600}, "l": {`a/b="label"`, 0o600},
		},
	} {
		v := corev1.Volume{}
		repotest.NoError(t, yaml.UnmarshalStrict([]byte(text), &v))
		v.Name = "v"
		got, err := volumeFiles(podOf(t, `{containers: [{volumeMounts: [{name: v, mountPath: /x}]}]}`), &v, found, place{})
		if (err == nil) != (want != nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
}

// TestSubPaths mounts parts of a Secret: what no container mounts is not written.
func TestSubPaths(t *testing.T) {
	found := &sources{secrets: map[string]map[string]string{"s": {"0": "first", "1": "second", "11": "other"}}}
	for mounted, want := range map[string]string{ // the argument, and the files that are written; empty: it is refused
		`{mountPath: /x}`:                             "/vol/v/f 0 1 11",
		`{mountPath: /x/f, subPath: "1"}`:             "/vol/v/1 1",
		`{mountPath: /x/f, subPathExpr: $(INDEX)}`:    "/vol/v/1 1",
		`{mountPath: /x/f, subPathExpr: ../$(INDEX)}`: "",
		`{mountPath: /x/f, subPathExpr: $(OTHER)}`:    "",
	} {
		pod := podOf(t, `{containers: [{command: [/bin/sh], args: [/x/f], env: [{name: INDEX, value: "1"}], volumeMounts: [{name: v, `+mounted[1:]+`]}], volumes: [{name: v, secret: {secretName: s}}]}`)
		at := place{volume: func(name string) string { return "/vol/" + name }}
		spec, err := known.commandOf(pod, &pod.Spec.Containers[0], found, at)
		files, err2 := volumeFiles(pod, &pod.Spec.Volumes[0], found, at)
		got := strings.Join(append(spec.Args, sortedKeys(files)...), " ")
		if (err == nil) != (want != "") || (err2 == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%s: %q, %v, %v; want %q", mounted, got, err, err2, want)
		}
	}
}

func TestPodsOfOtherNamespacesAreRefused(t *testing.T) {
	p := podOf(t, `{containers: [{}]}`)
	p.Namespace = "kube-system"
	if got := known.unsupportedReasons(p); len(got) != 1 || got[0] != "namespace kube-system: the node runs pods of namespace ns" {
		t.Errorf("%q", got)
	}
}

// A ConfigMap must not bring what a pod's own variables may not.
func TestVariablesOfOtherObjectsDoNotSteer(t *testing.T) {
	p := podOf(t, `{containers: [{envFrom: [{prefix: LD_, configMapRef: {name: m}}]}]}`)
	found := &sources{configMaps: map[string]map[string]string{"m": {"PRELOAD": "/v/x.so"}}}
	if _, err := known.commandOf(p, &p.Spec.Containers[0], found, place{}); err == nil || !strings.Contains(err.Error(), "LD_PRELOAD") {
		t.Errorf("%v", err)
	}
}
