package protobuf

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/template"
)

// program makes objects: fixed bytes, the values of holes, and the lengths of
// the messages and texts that enclose them.
type program struct {
	steps []step
	nodes []node // each before those in it
}

// step is fixed bytes and what follows them.
type step struct {
	fixed []byte
	then  follow
	which int // the hole or the node
}

// follow is what stands behind a step's fixed bytes.
type follow uint8

const (
	nothing follow = iota
	aHole
	aLength
)

// node is a message or text whose length depends on holes.
type node struct {
	fixed int   // bytes of it that are always there
	holes []int // in it, but not in nodes of it
	nodes []int // directly in it
}

// holeMarker stands for the value of a hole. It is text that no template has.
func holeMarker(i int) string { return fmt.Sprintf("zqhole%dqz", i) }

// compileProgram finds the markers of JSON in its protobuf form, or says why it
// cannot.
func compileProgram(marked, encoded []byte, holes int) (*program, string) {
	texts, why := markedTexts(marked, holes)
	if why != "" {
		return nil, why
	}
	c := &compiler{texts: texts, holes: holes, program: &program{}}
	if !strings.HasPrefix(string(encoded), object.Magic) {
		return nil, "it has no envelope"
	}
	c.fixed = append(c.fixed, object.Magic...)
	root := c.addNode()
	if !c.compileMessage(encoded[len(object.Magic):], root) {
		return nil, "a value does not stand in the protobuf form as it is"
	}
	c.emitStep(nothing, 0)
	if c.found != holes {
		return nil, "a value is missing in the protobuf form"
	}
	return c.program, ""
}

// compiler walks an encoded object.
type compiler struct {
	program *program
	texts   map[string]bool // of the JSON: those that have markers
	holes   int
	found   int
	fixed   []byte // since the last step
}

func (c *compiler) addNode() int {
	c.program.nodes = append(c.program.nodes, node{})
	return len(c.program.nodes) - 1
}

func (c *compiler) emitStep(then follow, which int) {
	c.program.steps = append(c.program.steps, step{append([]byte(nil), c.fixed...), then, which})
	c.fixed = c.fixed[:0]
}

// keepBytes takes bytes as they are into a node.
func (c *compiler) keepBytes(p []byte, in int) {
	c.fixed = append(c.fixed, p...)
	c.program.nodes[in].fixed += len(p)
}

// compileMessage walks a message's fields; false when it is none.
func (c *compiler) compileMessage(b []byte, in int) bool {
	for len(b) > 0 {
		_, kind, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return false
		}
		if kind != protowire.BytesType {
			size := protowire.ConsumeFieldValue(1, kind, b[tag:])
			if size < 0 {
				return false
			}
			c.keepBytes(b[:tag+size], in)
			b = b[tag+size:]
			continue
		}
		value, size := protowire.ConsumeBytes(b[tag:])
		if size < 0 {
			return false
		}
		if !strings.Contains(string(value), "zqhole") {
			c.keepBytes(b[:tag+size], in)
		} else {
			c.keepBytes(b[:tag], in)
			inner := c.addNode()
			c.program.nodes[in].nodes = append(c.program.nodes[in].nodes, inner)
			c.emitStep(aLength, inner)
			if c.texts[string(value)] {
				c.cutText(string(value), inner)
			} else if !c.compileMessage(value, inner) {
				return false
			}
		}
		b = b[tag+size:]
	}
	return true
}

// cutText cuts a text at its markers.
func (c *compiler) cutText(s string, in int) {
	for {
		first, at := -1, len(s)
		for i := range c.holes {
			if j := strings.Index(s, holeMarker(i)); j >= 0 && j < at {
				first, at = i, j
			}
		}
		c.keepBytes([]byte(s[:at]), in)
		if first < 0 {
			return
		}
		c.program.nodes[in].holes = append(c.program.nodes[in].holes, first)
		c.emitStep(aHole, first)
		c.found++
		s = s[at+len(holeMarker(first)):]
	}
}

// markedTexts returns the texts of a JSON object that have markers in them.
func markedTexts(marked []byte, holes int) (map[string]bool, string) {
	var v any
	if err := json.Unmarshal(marked, &v); err != nil {
		return nil, "a value is not a text"
	}
	out := map[string]bool{}
	collectTexts(v, out)
	for i := range holes {
		if strings.Count(string(marked), holeMarker(i)) != 1 {
			return nil, "it has a text of ours"
		}
	}
	return out, ""
}

func collectTexts(v any, out map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v {
			collectTexts(value, out)
		}
	case []any:
		for _, value := range v {
			collectTexts(value, out)
		}
	case string:
		if strings.Contains(v, "zqhole") {
			out[v] = true
		}
	}
}

// appendObject appends an object.
func (p *program) appendObject(dst []byte, layout template.Layout, v template.Vars, s *scratch) []byte {
	s.holes, s.ends = s.holes[:0], s.ends[:0]
	for i := range layout.Holes() {
		s.holes = layout.Append(s.holes, i, v)
		s.ends = append(s.ends, len(s.holes))
	}
	p.measureNodes(s)
	for i := range p.steps {
		step := &p.steps[i]
		dst = append(dst, step.fixed...)
		switch step.then {
		case aHole:
			dst = append(dst, s.holeValue(step.which)...)
		case aLength:
			dst = binary.AppendUvarint(dst, uint64(s.sizes[step.which]))
		}
	}
	return dst
}

// holeValue returns the value of one.
func (s *scratch) holeValue(i int) []byte {
	if i == 0 {
		return s.holes[:s.ends[0]]
	}
	return s.holes[s.ends[i-1]:s.ends[i]]
}

// measureNodes computes the sizes of all nodes: those in a node come after it.
func (p *program) measureNodes(s *scratch) {
	if cap(s.sizes) < len(p.nodes) {
		s.sizes = make([]int, len(p.nodes))
	}
	s.sizes = s.sizes[:len(p.nodes)]
	for i := len(p.nodes) - 1; i >= 0; i-- {
		n := &p.nodes[i]
		size := n.fixed
		for _, hole := range n.holes {
			size += len(s.holeValue(hole))
		}
		for _, inner := range n.nodes {
			size += s.sizes[inner] + protowire.SizeVarint(uint64(s.sizes[inner]))
		}
		s.sizes[i] = size
	}
}
