package redact

import (
	"regexp"
	"strings"
)

var (
	secretKind = regexp.MustCompile(`\bkind["']?\s*:\s*["']?Secret\b`)
	secretData = regexp.MustCompile(`^(\s*(?:- )?)["']?(?:data|stringData)["']?\s*:\s*(\{.*\})?\s*$`)
	inlineData = regexp.MustCompile(`\b(?:data|stringData)["']?\s*:\s*\{([^{}]*)\}`)
	pair       = regexp.MustCompile(`^(\s*["']?[\w./-]+["']?\s*:\s*["']?)([^"'\s,]+.*?)(["']?\s*)$`)
)

// Scenario returns the text of a scenario without what is to be taken out. Where it has
// objects of kind Secret, the values below data and stringData go too: they are replaced
// by as many letters, for the length of a body is part of the load.
func (r *Redactor) Scenario(text string) string {
	if secretKind.MatchString(text) {
		text = r.blankSecrets(text)
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(r.Text(line))
	}
	return b.String()
}

// blankSecrets replaces the values in each block data or stringData of a text.
func (r *Redactor) blankSecrets(text string) string {
	var b strings.Builder
	inside := -1 // indent of the key whose block this is
	for line := range strings.Lines(text) {
		body := strings.TrimRight(line, "\r\n")
		indent := len(body) - len(strings.TrimLeft(body, " "))
		if inside >= 0 && strings.TrimSpace(body) != "" && indent <= inside {
			inside = -1
		}
		switch found := secretData.FindStringSubmatch(body); {
		case inside >= 0:
			line = r.blankValue(body) + line[len(body):]
		case found != nil && found[2] == "":
			inside = len(found[1])
		default:
			line = inlineData.ReplaceAllStringFunc(body, r.blankInline) + line[len(body):]
		}
		b.WriteString(line)
	}
	return b.String()
}

// blankInline blanks the values of {a: x, b: y}.
func (r *Redactor) blankInline(s string) string {
	open := strings.IndexByte(s, '{')
	pairs := strings.Split(s[open+1:len(s)-1], ",")
	for i := range pairs {
		pairs[i] = r.blankValue(pairs[i])
	}
	return s[:open+1] + strings.Join(pairs, ",") + "}"
}

// blankValue blanks the value of a line "key: value", or all of a line without a key.
func (r *Redactor) blankValue(line string) string {
	if found := pair.FindStringSubmatch(line); found != nil {
		if strings.HasPrefix(found[2], "|") || strings.HasPrefix(found[2], ">") || strings.Contains(found[2], "{{") {
			return line
		}
		r.count(Secret, found[2])
		return found[1] + blank(found[2]) + found[3]
	}
	value := strings.TrimSpace(line)
	if value == "" || strings.HasSuffix(value, ":") {
		return line
	}
	r.count(Secret, value)
	return strings.Replace(line, value, blank(value), 1)
}

// blank keeps the padding of base64, so that the text stays one that decodes.
func blank(s string) string {
	body := strings.TrimRight(s, "=")
	return strings.Repeat("A", len(body)) + s[len(body):]
}
