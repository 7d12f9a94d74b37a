package object

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-1", Namespace: "shop", UID: types.UID("0b1e5f1c-7d52-4f39-9a39-5a60b6a9a111"), ResourceVersion: "4711",
			CreationTimestamp: metav1.Unix(1700000000, 0),
			Labels:            map[string]string{"app": "web", FleetLabel: "blue", GroupLabel: "latency"},
			OwnerReferences:   []metav1.OwnerReference{{Kind: "Job", Name: "j"}, {Kind: "Other", Name: "o"}},
			ManagedFields:     []metav1.ManagedFieldsEntry{{Manager: "x", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:a":{}}`)}}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-000007", HostNetwork: true,
			Containers:     []corev1.Container{{Name: "a", Image: "ia"}, {Name: "b", Image: "ib"}},
			InitContainers: []corev1.Container{{Name: "i", Image: "ii", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "gate/x"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.1.2.3",
			Conditions: []corev1.PodCondition{{Type: "PodScheduled", Status: "True"}, {Type: "Ready", Status: "False"}},
		},
	}
}

func marshal(t testing.TB, o interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	return repotest.Must(o.Marshal())(t)
}

func TestDecodePod(t *testing.T) {
	var got Pod
	want := pod()
	repotest.NoError(t, DecodePod(marshal(t, want), &got))
	checkPod(t, &got, want)
	want.DeletionTimestamp = new(metav1.Now())
	want.Spec.Containers = want.Spec.Containers[:1]
	want.OwnerReferences = nil
	want.Status = corev1.PodStatus{}
	if err := DecodePod(marshal(t, want), &got); err != nil { // reuse must leave nothing of the first
		t.Fatal(err)
	}
	checkPod(t, &got, want)
}

func checkPod(t *testing.T, got *Pod, want *corev1.Pod) {
	t.Helper()
	raw, ready := marshal(t, want), ""
	for _, c := range want.Status.Conditions {
		if c.Type == "Ready" {
			ready = string(c.Status)
		}
	}
	for _, c := range [][2]string{
		{string(got.Name), want.Name},
		{string(got.Namespace), want.Namespace},
		{string(got.UID), string(want.UID)},
		{string(got.NodeName), want.Spec.NodeName},
		{string(got.Phase), string(want.Status.Phase)},
		{string(got.PodIP), want.Status.PodIP},
		{string(got.Ready), ready},
		{string(got.Fleet), want.Labels[FleetLabel]},
		{string(got.Group), want.Labels[GroupLabel]},
		{string(ResourceVersion(raw)), want.ResourceVersion},
	} {
		if c[0] != c[1] {
			t.Errorf("got %q, want %q", c[0], c[1])
		}
	}
	if got.Version != 4711 || got.Deleting != (want.DeletionTimestamp != nil) || got.HostNetwork != want.Spec.HostNetwork {
		t.Errorf("got %+v", got)
	}
}

func TestDecodeNode(t *testing.T) {
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-000001", UID: "u", ResourceVersion: "9"},
		Spec:       corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "b"}}},
		Status: corev1.NodeStatus{
			Phase: corev1.NodeRunning, Capacity: corev1.ResourceList{"cpu": resource.MustParse("1")}, NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1"},
			Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "Unknown"}, {Type: "DiskPressure", Status: "False"}},
			Addresses:  []corev1.NodeAddress{{Type: "InternalIP", Address: "10.1.0.0"}},
		},
	}
	var got Node
	repotest.NoError(t, DecodeNode(marshal(t, want), &got))
	if string(got.Name) != want.Name || string(got.Ready) != "Unknown" || string(got.Phase) != "Running" || !got.Unschedulable ||
		len(got.Taints) != 2 || string(got.Taints[1]) != "b" || string(got.InternalIP) != "10.1.0.0" || got.Version != 9 {
		t.Errorf("got %+v", got)
	}
}

// TestEnvelope holds our envelope against the one of apimachinery, both ways.
func TestEnvelope(t *testing.T) {
	s := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	p := pod()
	p.APIVersion, p.Kind = "v1", "Pod"
	var theirs bytes.Buffer
	repotest.NoError(t, s.Encode(p, &theirs))
	raw, kind, err := Unwrap(theirs.Bytes())
	if err != nil || string(kind) != "Pod" || !bytes.Equal(raw, marshal(t, p)) {
		t.Fatalf("unwrap: kind %q, %v", kind, err)
	}
	ours := AppendEnvelope(nil, "v1", "Pod", raw)
	back, _, err := s.Decode(ours, nil, nil)
	if err != nil || back.(*corev1.Pod).Name != p.Name {
		t.Fatalf("decode ours: %v %v", back, err)
	}
}

func watchFrame(t testing.TB, kind EventType, o runtime.Object) []byte {
	t.Helper()
	var inner bytes.Buffer
	repotest.NoError(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &inner))
	event := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: inner.Bytes()}}
	raw := marshal(t, &event)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)
}

func TestFrames(t *testing.T) {
	p := pod()
	p.APIVersion, p.Kind = "v1", "Pod"
	gone := &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: 410, Reason: "Expired", Message: "too old"}
	stream := append(watchFrame(t, Added, p), watchFrame(t, Error, gone)...)
	for cut := range stream { // every cut leaves whole frames and a rest
		whole, last, err := SplitFrames(stream[:cut])
		if err != nil || whole > cut || (whole > 0) != (last != nil) {
			t.Fatalf("cut %d: whole %d, %v", cut, whole, err)
		}
	}
	whole, last, err := SplitFrames(stream)
	if err != nil || whole != len(stream) {
		t.Fatal(whole, err)
	}
	kind, raw, err := DecodeEvent(last)
	status, statusErr := DecodeStatus(raw)
	if err != nil || statusErr != nil || kind != Error || status.Code != 410 || status.Message != "too old" {
		t.Fatalf("%v %+v %v %v", kind, status, err, statusErr)
	}
	frame, rest := NextFrame(stream)
	kind, raw, err = DecodeEvent(frame)
	var got Pod
	if err != nil || kind != Added || DecodePod(raw, &got) != nil || string(got.Name) != "web-1" || len(rest) == 0 {
		t.Fatalf("%v %v", kind, err)
	}
	if _, _, err := SplitFrames([]byte{0xff, 0xff, 0xff, 0xff, 0}); err == nil {
		t.Error("a frame of 4 GiB was accepted")
	}
}

func TestPage(t *testing.T) {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "77", Continue: "next"}, Items: []corev1.Pod{*pod(), *pod()}}
	page, err := DecodePage(marshal(t, list))
	if err != nil || page.Version != "77" || page.Continue != "next" {
		t.Fatalf("%+v %v", page, err)
	}
	n := 0
	page.Items(func(raw []byte) {
		var p Pod
		if err := DecodePod(raw, &p); err != nil || string(p.Name) != "web-1" {
			t.Errorf("item %d: %q %v", n, p.Name, err)
		}
		n++
	})
	if n != 2 {
		t.Errorf("%d items", n)
	}
}

// TestTruncated: no prefix of a message may panic, and few may pass.
func TestTruncated(t *testing.T) {
	raw := marshal(t, pod())
	var p Pod
	failed := 0
	for n := range raw {
		if DecodePod(raw[:n], &p) != nil {
			failed++
		}
	}
	if failed < len(raw)*9/10 {
		t.Errorf("only %d of %d prefixes were refused", failed, len(raw))
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(marshal(f, pod()))
	rng := rand.New(rand.NewPCG(1, 2))
	f.Add(binary.LittleEndian.AppendUint64(nil, rng.Uint64()))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p Pod
		var n Node
		var whole corev1.Pod
		err := DecodePod(raw, &p)
		if whole.Unmarshal(raw) == nil {
			if err != nil {
				t.Fatalf("client-go reads it, we do not: %v", err)
			}
			if string(p.NodeName) != whole.Spec.NodeName || string(p.Name) != whole.Name {
				t.Fatalf("got %+v", p)
			}
		}
		_ = DecodeNode(raw, &n)
		_, _, _ = Unwrap(raw)
		_, _, _ = DecodeEvent(raw)
		_, _, _ = SplitFrames(raw)
		_ = ReadStatus(raw)
		_, _ = ReadMetadata(raw)
		if page, err := DecodePage(raw); err == nil {
			page.Items(func([]byte) {})
		}
	})
}

func TestStatusIsReadWhateverItsForm(t *testing.T) {
	status := &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: 410, Reason: "Expired", Message: "too old"}
	var wrapped bytes.Buffer
	repotest.NoError(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(status, &wrapped))
	inJSON := repotest.Must(json.Marshal(status))(t)
	other := &metav1.Status{TypeMeta: status.TypeMeta, Code: 422, Reason: "Invalid", Message: "no", Details: &metav1.StatusDetails{
		Causes: []metav1.StatusCause{{Field: "spec"}, {Type: "FieldValueInvalid", Field: "metadata.uid"}},
	}}
	var otherWrapped bytes.Buffer
	repotest.NoError(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(other, &otherWrapped))
	otherInJSON := repotest.Must(json.Marshal(other))(t)
	long := strings.Repeat("x", 1000)
	for body, want := range map[string]Status{
		wrapped.String():                   {Message: "too old", Reason: "Expired", Code: 410},
		string(inJSON):                     {Message: "too old", Reason: "Expired", Code: 410},
		otherWrapped.String():              {Message: "no", Reason: "Invalid", Code: 422, OtherUID: true},
		string(otherInJSON):                {Message: "no", Reason: "Invalid", Code: 422, OtherUID: true},
		`{"message":"no"}`:                 {Message: "no"},
		`{"message":""}`:                   {Message: `{"message":""}`},
		"plain":                            {Message: "plain"},
		long:                               {Message: long[:300]},
		"":                                 {},
		wrapped.String()[:wrapped.Len()/2]: {Message: wrapped.String()[:wrapped.Len()/2]},
	} {
		if got := ReadStatus([]byte(body)); got != want {
			t.Errorf("%q: got %+v, want %+v", body, got, want)
		}
	}
	if !(Status{Code: 410}).Gone() || !(Status{Reason: "Expired"}).Gone() || (Status{Code: 409}).Gone() {
		t.Error("Gone is wrong")
	}
}

func TestJSON(t *testing.T) {
	p := pod()
	p.DeletionTimestamp = new(metav1.Unix(1700000001, 0))
	raw, err := json.Marshal(&corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "77", Continue: "next"}, Items: []corev1.Pod{*p}})
	repotest.NoError(t, err)
	var list List[json.RawMessage]
	if err := json.Unmarshal(raw, &list); err != nil || list.Metadata.ResourceVersion != "77" || list.Metadata.Continue != "next" || len(list.Items) != 1 {
		t.Fatalf("%+v %v", list, err)
	}
	got, err := ReadMetadata(list.Items[0])
	want := Metadata{Name: p.Name, Namespace: p.Namespace, UID: string(p.UID), ResourceVersion: "4711", DeletionTimestamp: "2023-11-14T22:13:21Z", Labels: p.Labels}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if _, err := ReadMetadata([]byte(`{"metadata":3}`)); err == nil {
		t.Error("metadata that is a number was read")
	}
}

func BenchmarkDecodePod(b *testing.B) {
	raw := marshal(b, pod())
	var p Pod
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		repotest.NoError(b, DecodePod(raw, &p))
	}
}
