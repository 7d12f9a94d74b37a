package slo

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// CurrentKey returns today's key of a measure, or the beginning of one: earlier
// versions called a lifecycle a life.
func CurrentKey(key string) string {
	if rest, ok := strings.CutPrefix(key, "life_"); ok {
		return "lifecycle_" + rest
	}
	if rest, ok := strings.CutPrefix(key, "lives_"); ok {
		return "lifecycles_" + rest
	}
	return key
}

// HasKey reports whether a key begins with one of some prefixes, which may be
// those of earlier versions.
func HasKey(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) || strings.HasPrefix(key, CurrentKey(p)) })
}

// UnmarshalJSON reads measures by the keys of any version. What a scenario
// named itself keeps its name.
func (m *Measures) UnmarshalJSON(raw []byte) error {
	var all map[string]Measure
	if err := json.Unmarshal(raw, &all); err != nil {
		return fmt.Errorf("read measures: %w", err)
	}
	*m = make(Measures, len(all)) // also of null
	maps.Copy(*m, all)
	m.UseCurrentKeys()
	return nil
}

// UseCurrentKeys gives measures of any version today's keys.
func (m Measures) UseCurrentKeys() {
	for key, x := range m {
		if now := CurrentKey(key); now != key && !x.Own {
			delete(m, key)
			m[now] = x
		}
	}
}

// UnmarshalJSON reads a verdict.json of any version.
func (j *Judgement) UnmarshalJSON(raw []byte) error {
	type plain Judgement
	former := struct {
		*plain
		Lives []struct {
			LifecycleSummary
			Life  string `json:"life"`
			Vague int    `json:"vague"`
		} `json:"lives"`
	}{plain: (*plain)(j)}
	if err := json.Unmarshal(raw, &former); err != nil {
		return fmt.Errorf("read verdict: %w", err)
	}
	for _, s := range former.Lives {
		s.Lifecycle, s.Censored = s.Life, s.Vague
		j.Lifecycles = append(j.Lifecycles, s.LifecycleSummary)
	}
	return nil
}
