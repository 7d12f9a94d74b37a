package template

import (
	"bytes"
	"encoding/json"
)

// RenderPatch appends what the template gives as compact JSON to dst: a patch,
// which is not a whole object and for a JSON patch a list. What the dialect
// adds to objects is not added to it.
func (t *Template) RenderPatch(dst []byte, v Vars) ([]byte, error) {
	x := t.pool.Get().(*executor)
	defer t.pool.Put(x)
	text, err := x.executeTemplate(v, nil)
	if err != nil {
		return dst, t.explainError(err, v.Name, v.With)
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return dst, t.wrapError(v, ErrEmpty)
	}
	patch, err := compactPatch(text, t.dialect.LastWins)
	if err != nil {
		return dst, t.wrapError(v, err)
	}
	return append(dst, patch...), nil
}

// compactPatch is compact, for lists in JSON as well.
func compactPatch(text []byte, lastWins bool) ([]byte, error) {
	if text[0] == '[' {
		return compactJSON(text, lastWins)
	}
	return compactObject(text, lastWins)
}

func compactJSON(text []byte, lastWins bool) ([]byte, error) {
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return compactObject(text, lastWins) // a flow sequence of YAML may begin like that
	}
	return out.Bytes(), nil
}
