package flight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/load/template"
	"github.com/windtunnel/windtunnel/internal/load/template/protobuf"
	"github.com/windtunnel/windtunnel/scenario"
)

// made is what a create step made. Of each object one bit is kept: whether it
// is there. Names follow from the number, or from rendering the body again
// where it names its objects by itself.
type made struct {
	step   string
	create *scenario.Create
	layout layout
	spaces []string // the namespaces that it goes through
	kinds  []kind   // of the layout's items
	seed   uint64

	mu      sync.Mutex
	there   bitmap // by layout.id
	indices int    // in each space: none that is there has a higher one
	ever    int    // the most that there were
}

// kind is what one item of a create step is.
type kind struct {
	item     scenario.Item
	body     *template.Template
	with     map[string]any
	resource discovery.Resource
	own      bool               // its body names the objects, not the scenario
	packed   *protobuf.Template // the body's protobuf form; nil: its name has to be read from its JSON
	optional bool               // the body may leave an object out
}

// errNameless says that an object cannot be addressed.
var errNameless = errors.New("its body gives it no name of its own")

// foresee asks where the plane serves what the steps are about, so that no step
// begins with a question: one that was asked of a plane that stands still would
// put off the calls that are due meanwhile. What is not served yet, such as a
// custom resource that a step installs, is asked for again by its step.
func (r *run) foresee(ctx context.Context) {
	for _, name := range slices.Sorted(maps.Keys(r.bodies)) {
		if body := r.bodies[name]; body.Kind() != "" {
			_, _ = r.generator.Resources().Kind(ctx, body.APIVersion(), body.Kind())
		}
	}
	for s := range r.scenario.AllSteps() {
		if s.Wait != nil && s.Wait.Objects != "" {
			_, _ = r.generator.Resources().Named(ctx, s.Wait.Objects)
		}
		if s.Requests == nil {
			continue
		}
		for _, c := range s.Requests.Mix {
			if c.Resource != "" {
				_, _ = r.generator.Resources().Named(ctx, c.Resource)
			}
		}
	}
}

// prepare makes a create step known: what each body is, and where the plane
// serves it.
func (r *run) prepare(ctx context.Context, step string, c *scenario.Create) (*made, error) {
	m := r.newMade(step, c)
	for k := range m.kinds {
		kind := &m.kinds[k]
		if err := m.look(kind, k); err != nil {
			return nil, err
		}
		if !kind.own {
			kind.packed = protobuf.New(kind.body)
		}
		if kind.body.Kind() == "" {
			continue // a body that leaves out all of its objects
		}
		var err error
		if kind.resource, err = r.served(ctx, func() (discovery.Resource, error) {
			return r.generator.Resources().Kind(ctx, kind.body.APIVersion(), kind.body.Kind())
		}); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	r.made[step] = m
	r.mu.Unlock()
	return m, nil
}

func (r *run) newMade(step string, c *scenario.Create) *made {
	m := &made{step: step, create: c, spaces: r.spaces(c), seed: r.scenario.Seed}
	spaces := 1
	if c.PerNamespace > 0 {
		spaces = len(m.spaces)
	}
	m.layout = newLayout(c, spaces)
	for _, item := range m.layout.items {
		m.kinds = append(m.kinds, kind{
			item: item, body: r.bodies[item.Body], with: merged(c.With, item.With),
			optional: r.scenario.Bodies[item.Body].Dialect == template.ClusterLoader2,
			own:      r.scenario.Bodies[item.Body].Dialect == template.KubeBurner, // even where the first name is as ours
		})
	}
	return m
}

// merged returns the variables of several maps; later ones win.
func merged(all ...map[string]any) map[string]any {
	out := map[string]any{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// spaces lists the namespaces of a create step.
func (r *run) spaces(c *scenario.Create) []string {
	from, to, prefix := 1, r.scenario.Namespaces.Count, r.scenario.Namespaces.Prefix
	switch {
	case c.Namespace != "":
		return []string{c.Namespace}
	case c.Namespaces != nil:
		from, to = c.Namespaces.From, c.Namespaces.To
		if c.Namespaces.Prefix != "" {
			prefix = c.Namespaces.Prefix
		}
	case to == 0:
		return []string{"default"}
	}
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, prefix+"-"+strconv.Itoa(i))
	}
	return out
}

// maxLook is how many objects are rendered to find one that is not left out.
const maxLook = 1000

// look renders the first object of a kind, and sees whether its body names it.
func (m *made) look(k *kind, number int) error {
	s := spot{item: number, replica: 1}
	for range maxLook {
		raw, err := k.body.Render(nil, m.vars(s))
		if err == nil {
			about, _ := object.ReadMetadata(raw) // of what is no JSON: nameless
			k.own = k.own || about.Name != m.name(s) || about.Namespace != "" && about.Namespace != m.namespace(s)
			return nil
		}
		if !k.optional || !errors.Is(err, template.ErrEmpty) {
			return err
		}
		s.index += every(k.item)
	}
	return nil
}

// servedWithin is how long a step waits for a resource that the plane does not
// serve yet: its definition may have been created just before.
const servedWithin = 5 * time.Second

func (r *run) served(ctx context.Context, find func() (discovery.Resource, error)) (discovery.Resource, error) {
	deadline := r.clock.Now().Add(servedWithin)
	for {
		found, err := find()
		if err == nil || !errors.Is(err, discovery.ErrNotServed) || r.clock.Now() > deadline {
			return found, err
		}
		if clock.Sleep(ctx, 10*waitPoll) != nil {
			return found, err
		}
	}
}

// namespace returns the namespace of an object.
func (m *made) namespace(s spot) string {
	n := len(m.spaces)
	switch c := m.create; {
	case c.PerNamespace > 0:
		return m.spaces[s.space]
	case c.Namespaces != nil && c.Namespaces.Each > 0:
		return m.spaces[s.index/c.Namespaces.Each%n]
	}
	return m.spaces[s.index%n]
}

// name returns the name that the scenario gives an object.
func (m *made) name(s spot) string {
	item := m.kinds[s.item].item
	if replicas(item) > 1 {
		return item.Name + "-" + strconv.Itoa(s.index) + "-" + strconv.Itoa(s.replica)
	}
	return item.Name + "-" + strconv.Itoa(s.index)
}

// render appends an object's body, as protobuf where that gives the same object
// for less of the server's CPU, and returns its media type.
func (k *kind) render(dst []byte, v template.Vars) (body []byte, mediaType string, err error) {
	if k.packed != nil {
		return k.packed.Render(dst, v)
	}
	body, err = k.body.Render(dst, v)
	return body, load.JSON, err
}

func (m *made) vars(s spot) template.Vars { return m.varsWith(s, m.kinds[s.item].with) }

func (m *made) varsWith(s spot, with map[string]any) template.Vars {
	return template.Vars{
		Name: m.name(s), Namespace: m.namespace(s), Group: m.create.Group, Index: s.index, Replica: s.replica,
		Seed: m.seed, With: with,
	}
}

// address returns where an object is.
func (m *made) address(s spot) (namespace, name string, err error) {
	k := &m.kinds[s.item]
	if !k.own {
		return m.namespace(s), m.name(s), nil
	}
	raw, err := k.body.Render(nil, m.vars(s))
	if err != nil {
		return "", "", err
	}
	return m.own(s, raw)
}

// own returns where an object is that names itself.
func (m *made) own(s spot, raw []byte) (namespace, name string, err error) {
	about, _ := object.ReadMetadata(raw) // of what is no JSON: nameless
	namespace, name = about.Namespace, about.Name
	if namespace == "" {
		namespace = m.namespace(s)
	}
	if name == "" {
		return "", "", fmt.Errorf("object %d of step %q: %w", s.index, m.step, errNameless)
	}
	return namespace, name, nil
}

// set remembers whether an object is there.
func (m *made) set(s spot, there bool) {
	id := m.layout.id(s)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.there.set(id, there)
}

func (m *made) has(s spot) bool {
	id := m.layout.id(s)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.there.has(id)
}

// upTo returns the number of indices in each space.
func (m *made) upTo() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.indices
}

// upToEver is the same of all that were ever there.
func (m *made) upToEver() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ever
}

func (m *made) setUpTo(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.indices, m.ever = n, max(m.ever, n)
}

// count returns how many of the objects of a resource are there.
func (m *made) count(resource discovery.Resource) int {
	n, to := 0, m.upTo()
	for i := range m.layout.count(0, to) {
		if s := m.layout.at(i, 0, to); m.kinds[s.item].resource == resource && m.has(s) {
			n++
		}
	}
	return n
}

// mine returns what tells whether an object of a resource is one that the step
// made; with gone, also one that was deleted since then, whose finalizers may
// keep it.
func (m *made) mine(resource discovery.Resource, gone bool) (func(namespace, name string) bool, error) {
	known := map[[2]string]bool{} // of those that name themselves
	to, ours := m.upTo(), m.has
	if gone {
		to, ours = m.upToEver(), func(spot) bool { return true }
	}
	for i := range m.layout.count(0, to) {
		s := m.layout.at(i, 0, to)
		if k := &m.kinds[s.item]; k.resource == resource && k.own && ours(s) {
			namespace, name, err := m.address(s)
			if err != nil {
				return nil, err
			}
			known[[2]string{namespace, name}] = true
		}
	}
	return func(namespace, name string) bool {
		for k := range m.kinds {
			if m.kinds[k].resource == resource && !m.kinds[k].own && m.named(k, [2]string{namespace, name}, to, ours) {
				return true
			}
		}
		return known[[2]string{namespace, name}] || !resource.Namespaced && known[[2]string{m.spaces[0], name}]
	}, nil
}

// named tells whether a name is one that the scenario gave an object of an item,
// below an index and of those that count.
func (m *made) named(number int, address [2]string, to int, ours func(spot) bool) bool {
	namespace, name := address[0], address[1]
	k := &m.kinds[number]
	rest, ok := strings.CutPrefix(name, k.item.Name+"-")
	if !ok {
		return false
	}
	s := spot{item: number, replica: 1}
	if replicas(k.item) > 1 {
		first, second, _ := strings.Cut(rest, "-")
		n, err := strconv.Atoi(second)
		if err != nil || n < 1 || n > replicas(k.item) {
			return false
		}
		rest, s.replica = first, n
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < 0 || n >= to || n%every(k.item) != 0 {
		return false
	}
	s.index = n
	for s.space = range m.layout.spaces {
		if (m.namespace(s) == namespace || !k.resource.Namespaced) && ours(s) {
			return true
		}
	}
	return false
}
