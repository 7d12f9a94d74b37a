package scenario

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
)

// Asked is a condition on the parameters: an item of a list that has it is part of the
// scenario only where it holds. It has no value, since a scenario that was read has no
// item left for which it does not hold.
type Asked struct{}

// listsAsked are the lists whose items may have a condition, with what an item is called.
func listsAsked() []struct{ list, item string } {
	return []struct{ list, item string }{{"subjects", "subject"}, {"steps", "step"}, {"objectives", "objective"}, {"measures", "measure"}}
}

// dropUnasked takes out of the tree what has a condition that does not hold, before
// anything is decoded: nothing of it is checked, and nothing may name it. It returns what
// was left out, in words.
func (d *decoder) dropUnasked(root *yaml.Node) []string {
	var out []string
	seen := map[*yaml.Node]bool{} // an alias may lead to a list again, even to the one that it is in
	for _, x := range listsAsked() {
		out = append(out, d.dropItems(strictyaml.Child(root, x.list), x.item, seen)...)
	}
	return out
}

func (d *decoder) dropItems(list *yaml.Node, called string, seen map[*yaml.Node]bool) (out []string) {
	if list != nil && list.Kind == yaml.AliasNode {
		list = list.Alias
	}
	if list == nil || list.Kind != yaml.SequenceNode || seen[list] {
		return nil // decoding says what is wrong
	}
	seen[list] = true
	list.Content = slices.DeleteFunc(list.Content, func(item *yaml.Node) bool {
		asked := Holds(true)
		if when := strictyaml.Child(item, "when"); when != nil {
			d.decodeHolds(when, &asked, place{Name: called + ".when"})
		}
		if !asked {
			out = append(out, d.describeItem(item, called))
			return true
		}
		if called == "step" {
			out = append(out, d.dropItems(strictyaml.Child(item, "parallel"), called, seen)...)
			out = append(out, d.dropItems(strictyaml.Child(item, "sequence"), called, seen)...)
			if loop := strictyaml.Child(item, "repeat"); loop != nil {
				out = append(out, d.dropItems(strictyaml.Child(loop, "steps"), called, seen)...)
			}
		}
		return false
	})
	return out
}

// whyMissing says why no item of a list has a name: it was left out, or nearly has another.
func (c *checker) whyMissing(called, name string, known []string) string {
	if slices.Contains(c.s.leftOut, called+" "+clipText(name)) {
		return ": it is left out, since its condition (when) does not hold"
	}
	return suggestName(name, known)
}

// allLeftOut follows the message that a list is empty.
func (c *checker) allLeftOut() string {
	if len(c.s.leftOut) == 0 {
		return ""
	}
	return ", or only some whose conditions (when) do not hold"
}

// describeItem names an item of a list by its name, or by its line.
func (d *decoder) describeItem(item *yaml.Node, called string) string {
	if name := strictyaml.Child(item, "name"); name != nil && name.Kind == yaml.ScalarNode && name.Value != "" {
		return called + " " + clipText(name.Value)
	}
	return called + " in " + d.lineName(item.Line)
}
