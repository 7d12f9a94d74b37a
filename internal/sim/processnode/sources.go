package processnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sources are what a pod takes from other objects, as it was when the pod began.
type sources struct {
	configMaps, secrets map[string]map[string]string // by name; nil: not there
	tokens              map[string]string            // by volume and path
	kubeconfig          string                       // of the pod's service account; empty: it has none
}

func (s *sources) configMap(name string, optional *bool) (map[string]string, error) {
	return takeData(s.configMaps, "config map", name, optional)
}

func (s *sources) secretData(name string, optional *bool) (map[string]string, error) {
	return takeData(s.secrets, "secret", name, optional)
}

func takeData(from map[string]map[string]string, kind, name string, optional *bool) (map[string]string, error) {
	if data := from[name]; data != nil || optional != nil && *optional {
		return data, nil
	}
	return nil, fmt.Errorf("%s %s: %w", kind, name, errMissing)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// referencedObjects names the objects that a pod takes something from.
func referencedObjects(pod *corev1.Pod) (configMaps, secrets map[string]bool) {
	configMaps, secrets = map[string]bool{}, map[string]bool{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, from := range c.EnvFrom {
			if from.ConfigMapRef != nil {
				configMaps[from.ConfigMapRef.Name] = true
			}
			if from.SecretRef != nil {
				secrets[from.SecretRef.Name] = true
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
				configMaps[e.ValueFrom.ConfigMapKeyRef.Name] = true
			}
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				secrets[e.ValueFrom.SecretKeyRef.Name] = true
			}
		}
	}
	for _, v := range pod.Spec.Volumes {
		for _, s := range projectionsOf(&v) {
			if s.ConfigMap != nil {
				configMaps[s.ConfigMap.Name] = true
			}
			if s.Secret != nil {
				secrets[s.Secret.Name] = true
			}
		}
	}
	return configMaps, secrets
}

// projectionsOf are the sources of a volume's files: all kinds of volumes have them in
// the form of the kind that has several.
func projectionsOf(v *corev1.Volume) []corev1.VolumeProjection {
	switch {
	case v.ConfigMap != nil:
		return []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: v.ConfigMap.LocalObjectReference, Items: v.ConfigMap.Items, Optional: v.ConfigMap.Optional}}}
	case v.Secret != nil:
		return []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: v.Secret.SecretName}, Items: v.Secret.Items, Optional: v.Secret.Optional}}}
	case v.DownwardAPI != nil:
		return []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{Items: v.DownwardAPI.Items}}}
	case v.Projected != nil:
		return v.Projected.Sources
	}
	return nil
}

// defaultModeOf is how files of a volume may be used unless they say it themselves.
func defaultModeOf(v *corev1.Volume) *int32 {
	switch {
	case v.ConfigMap != nil:
		return v.ConfigMap.DefaultMode
	case v.Secret != nil:
		return v.Secret.DefaultMode
	case v.DownwardAPI != nil:
		return v.DownwardAPI.DefaultMode
	case v.Projected != nil:
		return v.Projected.DefaultMode
	}
	return nil
}

// file is one of a volume's.
type file struct {
	text string
	mode os.FileMode // never more than the owner's
}

// volumeFiles are what a volume holds, by path. An emptyDir has none.
func volumeFiles(pod *corev1.Pod, v *corev1.Volume, found *sources, at place) (map[string]file, error) {
	out := map[string]file{}
	put := func(path, text string, own *int32) error {
		if !filepath.IsLocal(path) {
			return fmt.Errorf("volume %s: %q leads out of it", v.Name, path)
		}
		f := file{text: text, mode: 0o600}
		if m := cmp.Or(own, defaultModeOf(v)); m != nil {
			f.mode = os.FileMode(*m)&0o700 | 0o400
		}
		out[path] = f
		return nil
	}
	for _, s := range projectionsOf(v) {
		var err error
		switch {
		case s.ConfigMap != nil:
			var data map[string]string
			if data, err = found.configMap(s.ConfigMap.Name, s.ConfigMap.Optional); err == nil {
				err = putItems(data, s.ConfigMap.Items, s.ConfigMap.Optional, put)
			}
		case s.Secret != nil:
			var data map[string]string
			if data, err = found.secretData(s.Secret.Name, s.Secret.Optional); err == nil {
				err = putItems(data, s.Secret.Items, s.Secret.Optional, put)
			}
		case s.ServiceAccountToken != nil:
			err = put(s.ServiceAccountToken.Path, found.tokens[v.Name+"/"+s.ServiceAccountToken.Path], nil)
		case s.DownwardAPI != nil:
			for _, item := range s.DownwardAPI.Items {
				value, _, e := valueFrom(&corev1.EnvVarSource{FieldRef: item.FieldRef, ResourceFieldRef: item.ResourceFieldRef}, pod, &corev1.Container{}, found, at)
				err = errors.Join(err, e, put(item.Path, value, item.Mode))
			}
		}
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", v.Name, err)
		}
	}
	return out, keepShown(pod, v, out, found, at)
}

// keepShown removes the files of a volume that no container mounts. A process can read
// whatever is written, so a mount with a subPath must be all that there is.
func keepShown(pod *corev1.Pod, v *corev1.Volume, files map[string]file, found *sources, at place) error {
	var shown []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		env, err := environmentOf(pod, &c, found, at)
		for _, m := range c.VolumeMounts {
			if m.Name == v.Name && err == nil {
				var path string
				path, err = subPathOf(m, env)
				shown = append(shown, filepath.Clean(path)+"/")
			}
		}
		if err != nil {
			return fmt.Errorf("container %s: %w", c.Name, err)
		}
	}
	maps.DeleteFunc(files, func(path string, _ file) bool {
		return !slices.ContainsFunc(shown, func(s string) bool { return s == "./" || strings.HasPrefix(path+"/", s) })
	})
	return nil
}

// putItems puts all of an object's values, or those that are named.
func putItems(data map[string]string, items []corev1.KeyToPath, optional *bool, put func(path, text string, mode *int32) error) error {
	if len(items) == 0 {
		for _, key := range sortedKeys(data) {
			if err := put(key, data[key], nil); err != nil {
				return err
			}
		}
	}
	for _, item := range items {
		value, there, err := takeKey(data, item.Key, "it", optional, nil)
		if err == nil && there {
			err = put(item.Path, value, item.Mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeVolume makes a volume's folder with its files.
func writeVolume(folder string, files map[string]file) error {
	for _, path := range sortedKeys(files) {
		whole := filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(whole), 0o700); err != nil {
			return fmt.Errorf("write a volume: %w", err)
		}
		if err := os.WriteFile(whole, []byte(files[path].text), files[path].mode); err != nil {
			return fmt.Errorf("write a volume: %w", err)
		}
	}
	return os.MkdirAll(folder, 0o700)
}

// readSources reads what a pod takes from other objects. What is not there is left out:
// it may be optional.
func (k *kubelet) readSources(ctx context.Context, pod *corev1.Pod) (*sources, error) {
	found := &sources{configMaps: map[string]map[string]string{}, secrets: map[string]map[string]string{}, tokens: map[string]string{}}
	configMaps, secrets := referencedObjects(pod)
	core := k.options.Client.CoreV1()
	for name := range configMaps {
		m, err := core.ConfigMaps(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err = ignoreMissing(err); err != nil {
			return nil, fmt.Errorf("config map %s: %w", name, err)
		}
		if m.Name != "" {
			data := map[string]string{}
			for key, value := range m.BinaryData {
				data[key] = string(value)
			}
			maps.Copy(data, m.Data)
			found.configMaps[name] = data
		}
	}
	for name := range secrets {
		s, err := core.Secrets(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err = ignoreMissing(err); err != nil {
			return nil, fmt.Errorf("secret %s: %w", name, err)
		}
		if s.Name != "" {
			data := map[string]string{}
			for key, value := range s.Data {
				data[key] = string(value)
			}
			found.secrets[name] = data
		}
	}
	return found, k.gatherTokens(ctx, pod, found)
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// tokenFor is how long a service account's token holds at least, in seconds. Tokens
// are not renewed, so a pod's are good for longer than pods are here as a rule.
const tokenFor = 24 * 60 * 60

// gatherTokens asks for the tokens of a pod's service account.
func (k *kubelet) gatherTokens(ctx context.Context, pod *corev1.Pod, found *sources) error {
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			t := s.ServiceAccountToken
			if t == nil {
				continue
			}
			seconds := int64(tokenFor)
			request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
				ExpirationSeconds: &seconds,
				BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
			}}
			if t.Audience != "" {
				request.Spec.Audiences = []string{t.Audience}
			}
			answer, err := k.options.Client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("token of service account %s: %w", pod.Spec.ServiceAccountName, err)
			}
			found.tokens[v.Name+"/"+t.Path] = answer.Status.Token
			if t.Audience == "" && found.kubeconfig == "" {
				found.kubeconfig = filepath.Join(k.podFolder(pod), "kubeconfig")
				if err := k.options.Endpoint.As(answer.Status.Token).WriteKubeconfig(found.kubeconfig); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
