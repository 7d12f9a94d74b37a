// Package object reads what an API server sends: typed views of objects, decoded
// from Kubernetes' protobuf only as far as fleet and watches need them (a few
// microseconds and no allocation for an object whose full decoding costs a
// hundred times that), the metadata of any object, lists, Status and frames.
//
// A view's byte slices point into the bytes that it was decoded from and are
// valid as long as those are. It is no codec for whole objects: fields that
// nobody asks for are skipped.
package object

// Meta is the part of an object's metadata that views hold.
type Meta struct {
	Name      []byte
	Namespace []byte
	UID       []byte
	Version   uint64 // resourceVersion; 0 when it is no number
	Deleting  bool   // it has a deletionTimestamp
	Fleet     []byte // value of the label FleetLabel
	Group     []byte // value of the label GroupLabel
}

// FleetLabel is the label that every object made by a fleet carries; its value
// names the fleet.
const FleetLabel = "windtunnel.dev/fleet"

// GroupLabel is the label by which the lifecycles of pods are grouped.
const GroupLabel = "windtunnel.dev/group"

// view is an object whose message can be read further than its view goes.
type view struct {
	raw      []byte
	document Document
	root     Value // when it is open
}

// Raw returns the message that the view was decoded from.
func (v *view) Raw() []byte { return v.raw }

// Open returns the whole object. It is read where it is asked for, and lasts as
// long as the view.
func (v *view) Open(s *Schema) Value {
	if v.root.message == nil || v.root.message.schema != s {
		v.root = v.document.Reset(s, v.raw)
	}
	return v.root
}

// Pod is the view of a v1 Pod.
type Pod struct {
	Meta
	view
	NodeName    []byte
	HostNetwork bool
	Phase       []byte
	Ready       []byte // status of the condition Ready; empty without one
	PodIP       []byte
}

// Node is the view of a v1 Node.
type Node struct {
	Meta
	view
	Phase         []byte
	Ready         []byte   // status of the condition Ready; empty without one
	Taints        [][]byte // keys
	Unschedulable bool
	InternalIP    []byte // its first address of that type
}

func (p *Pod) reset() {
	*p = Pod{view: view{document: p.document}}
}

func (n *Node) reset() {
	*n = Node{view: view{document: n.document}, Taints: n.Taints[:0]}
}

// DecodeMeta reads the metadata of any object's message: it is field 1 of all.
func DecodeMeta(raw []byte, m *Meta) error {
	*m = Meta{}
	w := walk{rest: raw}
	for w.nextField() {
		if w.num == 1 {
			if err := m.decodeMeta(w.data); err != nil {
				return err
			}
		}
	}
	return w.err
}

// ResourceVersion is that of any object's message, as the server wrote it.
func ResourceVersion(raw []byte) []byte { return Field(Field(raw, 1), 6) }

func (m *Meta) decodeMeta(raw []byte) error {
	w := walk{rest: raw}
	for w.nextField() {
		switch w.num {
		case 1:
			m.Name = w.data
		case 3:
			m.Namespace = w.data
		case 5:
			m.UID = w.data
		case 6:
			m.Version = parseDecimal(w.data)
		case 9:
			m.Deleting = true
		case 11:
			switch key, value := splitEntry(w.data); string(key) {
			case FleetLabel:
				m.Fleet = value
			case GroupLabel:
				m.Group = value
			}
		}
	}
	return w.err
}

// DecodePod reads a Pod message. The view's slices are reused.
func DecodePod(raw []byte, p *Pod) error {
	p.reset()
	p.raw = raw
	w := walk{rest: raw}
	for w.nextField() {
		var err error
		switch w.num {
		case 1:
			err = p.Meta.decodeMeta(w.data)
		case 2:
			err = p.decodeSpec(w.data)
		case 3:
			err = p.decodeStatus(w.data)
		}
		if err != nil {
			return err
		}
	}
	return w.err
}

func (p *Pod) decodeSpec(raw []byte) error {
	w := walk{rest: raw}
	for w.nextField() {
		switch w.num {
		case 10:
			p.NodeName = w.data
		case 11:
			p.HostNetwork = w.value != 0
		}
	}
	return w.err
}

func (p *Pod) decodeStatus(raw []byte) error {
	w := walk{rest: raw}
	for w.nextField() {
		switch w.num {
		case 1:
			p.Phase = w.data
		case 2:
			if string(Field(w.data, 1)) == "Ready" {
				p.Ready = Field(w.data, 2)
			}
		case 6:
			p.PodIP = w.data
		}
	}
	return w.err
}

// DecodeNode reads a Node message. The view's slices are reused.
func DecodeNode(raw []byte, n *Node) error {
	n.reset()
	n.raw = raw
	w := walk{rest: raw}
	for w.nextField() {
		var err error
		switch w.num {
		case 1:
			err = n.Meta.decodeMeta(w.data)
		case 2:
			err = n.decodeSpec(w.data)
		case 3:
			err = n.decodeStatus(w.data)
		}
		if err != nil {
			return err
		}
	}
	return w.err
}

func (n *Node) decodeSpec(raw []byte) error {
	w := walk{rest: raw}
	for w.nextField() {
		switch w.num {
		case 4:
			n.Unschedulable = w.value != 0
		case 5:
			n.Taints = append(n.Taints, Field(w.data, 1))
		}
	}
	return w.err
}

func (n *Node) decodeStatus(raw []byte) error {
	w := walk{rest: raw}
	for w.nextField() {
		switch w.num {
		case 3:
			n.Phase = w.data
		case 4:
			if string(Field(w.data, 1)) == "Ready" {
				n.Ready = Field(w.data, 2)
			}
		case 5:
			if n.InternalIP == nil && string(Field(w.data, 1)) == "InternalIP" {
				n.InternalIP = Field(w.data, 2)
			}
		}
	}
	return w.err
}

// Pairs calls f for each label (of annotations: notes) of any object's message.
func Pairs(raw []byte, notes bool, f func(key, value []byte)) {
	field := uint64(11)
	if notes {
		field = 12
	}
	w := walk{rest: raw}
	for w.nextField() {
		if w.num != 1 {
			continue
		}
		for m := (walk{rest: w.data}); m.nextField(); {
			if m.num == field {
				f(splitEntry(m.data))
			}
		}
	}
}
