package scenario

import (
	"fmt"
	"strings"
)

// CheckQueries gives each PromQL query of the scenario to check, with a time in place of %v, so
// that a query that nobody can answer is known before a run. The errors say where the queries
// stand.
func (s *Scenario) CheckQueries(check func(query string) error) error {
	f := &problems{file: s.File, fragments: s.fragments}
	look := func(path, field, query string) {
		if query == "" {
			return
		}
		if err := check(strings.ReplaceAll(query, "%v", "1m")); err != nil {
			f.add(s.lineOf(path+".query"), "%s.query: %v", field, err)
		}
	}
	for i, o := range s.Objectives {
		look(fmt.Sprintf("objectives[%d]", i), "objective", o.Query)
	}
	for i, m := range s.Measures {
		look(fmt.Sprintf("measures[%d]", i), "measure", m.Query)
	}
	for i, c := range s.Charts {
		look(fmt.Sprintf("charts[%d]", i), "chart", c.Query)
	}
	for i, v := range s.Map {
		look(fmt.Sprintf("map[%d]", i), "map", v.Query)
	}
	return f.join()
}
