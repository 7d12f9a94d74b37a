package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/sim/stage"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

// figure is what a stage engine takes for one object, in nanoseconds; the command
// of module bench/kwok writes the same of kwok's.
type figure struct {
	Name  string  `json:"name"`
	Stage string  `json:"stage"`    // that plays
	Match float64 `json:"match_ns"` // choose the stage, for an object that is read
	Play  float64 `json:"play_ns"`  // choose it, take its delay and write its bodies
	Wire  float64 `json:"wire_ns"`  // the same from the object's bytes
}

// subject is an object with the calls that are timed.
type subject struct {
	name, stage       string
	match, play, wire func() error
}

var errNoStage = errors.New("no stage matches")

// ownFigures times windtunnel's engine: on the JSON of all objects, as players use
// it, and on the messages of those that the fleet plays itself.
func ownFigures(o options) (onJSON, onMessages []figure, err error) {
	all, fast, err := readSubjects(o.stages, o.inputs)
	if err != nil {
		return nil, nil, err
	}
	c := clock.Start()
	time := func(subjects []subject) (out []figure, err error) {
		for _, s := range subjects {
			f := figure{Name: s.name, Stage: s.stage}
			for _, t := range []struct {
				call func() error
				ns   *float64
			}{{s.match, &f.Match}, {s.play, &f.Play}, {s.wire, &f.Wire}} {
				if *t.ns, err = timePerCall(c, o.each, t.call); err != nil {
					return nil, fmt.Errorf("%s: %w", s.name, err)
				}
			}
			out = append(out, f)
		}
		return out, nil
	}
	if onJSON, err = time(all); err != nil {
		return nil, nil, err
	}
	onMessages, err = time(fast)
	return onJSON, onMessages, err
}

// timePerCall returns the nanoseconds that a call takes, measured for at least each.
func timePerCall(c clock.Clock, each time.Duration, call func() error) (float64, error) {
	for n := 1; ; n *= 2 {
		begin := c.Now()
		for range n {
			if err := call(); err != nil {
				return 0, err
			}
		}
		if took := c.Now().Sub(begin); took >= each/2 {
			return float64(took) / float64(n), nil
		}
	}
}

// readSubjects reads the objects INPUTS/KIND/SET/*.json and compiles the stages
// STAGES/KIND/SET/*.yaml for them.
func readSubjects(stages, inputs string) (onJSON, onMessages []subject, err error) {
	files, err := filepath.Glob(filepath.Join(inputs, "*", "*", "*.json"))
	if err != nil || len(files) == 0 {
		return nil, nil, fmt.Errorf("no objects in %s (%w)", inputs, err)
	}
	for _, path := range files {
		set, err := filepath.Rel(inputs, filepath.Dir(path))
		if err != nil {
			return nil, nil, err
		}
		name := filepath.ToSlash(filepath.Join(set, strings.TrimSuffix(filepath.Base(path), ".json")))
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		m, err := compileFolder(filepath.Join(stages, set))
		if err != nil {
			return nil, nil, err
		}
		s, err := jsonSubject(name, m, raw)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		onJSON = append(onJSON, s)
		t, ok, err := messageSubject(m, raw)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		if ok {
			t.name = name
			onMessages = append(onMessages, t)
		}
	}
	return onJSON, onMessages, nil
}

func compileFolder(folder string) (*machine.Machine, error) {
	files, err := stageFiles(folder)
	if err != nil {
		return nil, err
	}
	f, err := kwok.Read(files...)
	if err != nil {
		return nil, err
	}
	return machine.Compile(f.Stages)
}

// fixedTime is the time that goes into bodies.
func fixedTime() time.Time { return time.Unix(1767323045, 0).UTC() }

func fixedRandom() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }

// jsonSubject plays any stage on a tree of JSON.
func jsonSubject(name string, m *machine.Machine, raw []byte) (s subject, err error) {
	tree, err := machine.Decode(raw)
	if err != nil {
		return s, err
	}
	now, rng := fixedTime(), fixedRandom()
	env := &machine.Env{Now: now, Start: now, Version: "bench"}
	play := func(tree map[string]any) error {
		c, err := m.Match(tree, now, rng)
		if err != nil || c.Stage == nil {
			return errors.Join(errNoStage, err)
		}
		for step := range c.Stage.Steps() {
			if _, err := c.Stage.Play(step, tree, env); err != nil {
				return err
			}
		}
		return nil
	}
	c, err := m.Match(tree, now, rng)
	if err != nil || c.Stage == nil {
		return s, errors.Join(errNoStage, err)
	}
	return subject{
		name: name, stage: c.Stage.Name(),
		match: func() error { _, err := m.Match(tree, now, rng); return err },
		play:  func() error { return play(tree) },
		wire: func() error {
			tree, err := machine.Decode(raw)
			if err != nil {
				return err
			}
			return play(tree)
		},
	}, nil
}

// messageSubject plays stages on an object's message, as the fleet does. Not ok when
// it leaves them to a player.
func messageSubject(m *machine.Machine, raw []byte) (subject, bool, error) {
	set := stage.New(m)
	has := func(kind string) bool { return len(m.Stages(machine.Resource{APIVersion: "v1", Kind: kind})) > 0 }
	switch {
	case has("Node") && set.SlowNodes() == nil:
		wire, err := toProtobuf(raw, &corev1.Node{})
		if err != nil {
			return subject{}, false, err
		}
		s := messageCalls(wire, object.DecodeNode, set.Node, set.RenderNode)
		return s, true, s.wire()
	case has("Pod") && set.SlowPods() == nil:
		wire, err := toProtobuf(raw, &corev1.Pod{})
		if err != nil {
			return subject{}, false, err
		}
		s := messageCalls(wire, object.DecodePod, set.Pod, set.RenderPod)
		return s, true, s.wire()
	}
	return subject{}, false, nil
}

// messageCalls are the timed calls on a view of type V. As in the fleet, one view
// and one buffer serve all objects.
func messageCalls[V any](wire []byte, decode func([]byte, *V) error, choose func(*V, *rand.Rand) stage.Choice,
	render func([]byte, stage.Choice, *V, stage.Env) (machine.Effect, error)) subject {
	view, rng, env := new(V), fixedRandom(), stage.Env{Now: fixedTime(), Addresses: fixed{}}
	var body []byte
	play := func() error {
		c := choose(view, rng)
		if c.None() {
			return errNoStage
		}
		e, err := render(body[:0], c, view, env)
		if e.Kind == machine.Patch {
			body = e.Body
		}
		return err
	}
	if err := decode(wire, view); err != nil {
		return subject{wire: func() error { return err }}
	}
	return subject{
		stage: choose(view, rng).Stage(),
		match: func() error {
			if choose(view, rng).None() {
				return errNoStage
			}
			return nil
		},
		play: play,
		wire: func() error {
			if err := decode(wire, view); err != nil {
				return err
			}
			return play()
		},
	}
}

// toProtobuf returns an object's protobuf form.
func toProtobuf(raw []byte, into interface{ Marshal() ([]byte, error) }) ([]byte, error) {
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	return into.Marshal()
}

// fixed gives all objects the same addresses.
type fixed struct{}

func (fixed) Host([]byte) netip.Addr     { return netip.AddrFrom4([4]byte{10, 1, 2, 3}) }
func (fixed) Pod(*object.Pod) netip.Addr { return netip.AddrFrom4([4]byte{10, 4, 5, 6}) }
