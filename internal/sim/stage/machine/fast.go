package machine

import (
	"slices"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// Slow says why a stage cannot be played by Append on the messages of a schema;
// empty when it can: the usual selectors, a delay and a weight that do not depend
// on the object, and a deletion or one strategic patch of the status whose template
// is compiled.
func (s *Stage) Slow(schema *object.Schema) string {
	switch {
	case len(s.programs) > 0:
		return "its selector is written in CEL"
	case s.weight.from.isComputed() || s.delay.min.from.isComputed() || s.delay.max.from.isComputed():
		return "its weight or delay depends on the object"
	case s.immediate:
		return "the next stage is immediate"
	case len(s.steps) != 1:
		return "it has not one step"
	}
	if !s.steps[0].remove && s.again != ends {
		return "it may match again after its own patch, which a player watches for"
	}
	for _, r := range s.requires {
		if !r.Query.Direct() {
			return "its selector needs all of jq: " + r.Query.Text()
		}
		if slices.ContainsFunc(r.Query.Paths(), func(path []string) bool { return !schema.Reads(path) }) {
			return "its selector reads a field that only its Go type knows: " + r.Query.Text()
		}
	}
	return s.steps[0].slowReason()
}

func (o *origin) isComputed() bool { return o.query != nil || o.program != nil }

func (st *step) slowReason() string {
	switch p := st.patch; {
	case st.event != nil || st.finalizers != nil || st.apply != nil:
		return "its step does more than patch or delete"
	case st.remove:
		return ""
	case p == nil:
		return "its step does nothing"
	case p.kind != StrategicPatch || p.subresource != "status" || p.user != "":
		return "its patch is not a strategic one of the status, by the fleet itself"
	case p.template.Slow() != "":
		return "its template is left to text/template: " + p.template.Slow()
	}
	return ""
}

// Deletes says that a stage that is not slow deletes its object.
func (s *Stage) Deletes() bool { return s.steps[0].remove }

// Reads returns the fields of the object that the template of a stage that is not
// slow reads; all says that it may read any.
func (s *Stage) Reads() (paths [][]string, all bool) {
	if s.Deletes() {
		return nil, false
	}
	return s.steps[0].patch.template.Reads()
}

// Append returns what a stage asks for that is not slow, with the body appended to
// dst. A patch below a root carries the object's uid, so that a server refuses it
// for a later object of the same name. render.ErrUnread says that it takes the
// object's JSON.
func (s *Stage) Append(dst []byte, o object.Value, env *Env) (Effect, error) {
	b := s.steps[0].patch
	if b == nil {
		return Effect{Kind: Delete}, nil
	}
	uid, _ := s.uid.In(o)
	out, err := b.appendBody(dst, o, uid, env)
	if err != nil {
		return Effect{}, templateError(s.source, b.field, b.text, err)
	}
	return Effect{Kind: Patch, Type: b.kind, Subresource: b.subresource, Body: out}, nil
}
