package watch

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
)

// jsonPage hands over the items of one page and returns the token of the next.
// Items of built-in kinds carry no apiVersion and kind: their list says them.
func (f *follower) jsonPage(body []byte, at clock.Time) (next string, err error) {
	var list object.List[json.RawMessage]
	if err := json.Unmarshal(body, &list); err != nil {
		return "", fmt.Errorf("read page: %w", err)
	}
	f.version = list.Metadata.ResourceVersion
	for _, item := range list.Items {
		f.handler.Event(Event{Kind: Listed, Object: item, At: at})
	}
	return list.Metadata.Continue, nil
}

// jsonData cuts what arrived into events: one on each line.
func (f *follower) jsonData(p []byte) error {
	at := f.options.Clock.Now()
	if len(f.frame)+len(p) > maxFrame {
		return fmt.Errorf("watch event of more than %d bytes", maxFrame)
	}
	if len(f.frame) > 0 {
		f.frame = append(f.frame, p...)
		p = f.frame
	}
	for {
		line, rest, whole := bytes.Cut(p, []byte{'\n'})
		if !whole {
			break
		}
		if len(bytes.TrimSpace(line)) > 0 {
			if err := f.jsonEvent(line, at); err != nil {
				return err
			}
		}
		p = rest
	}
	f.frame = append(f.frame[:0], p...)
	return nil
}

func (f *follower) jsonEvent(line []byte, at clock.Time) error {
	var e struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("read watch event: %w", err)
	}
	if e.Type == "ERROR" {
		return statusError(object.ReadStatus(e.Object))
	}
	about, err := object.ReadMetadata(e.Object)
	if err != nil {
		return fmt.Errorf("read watch event: %w", err)
	}
	f.noteSuccess()
	f.version = about.ResourceVersion
	kind := map[string]Kind{"ADDED": Added, "MODIFIED": Modified, "DELETED": Deleted}[e.Type]
	if e.Type == "BOOKMARK" {
		f.emitBookmark(at)
	}
	if kind != 0 {
		f.handler.Event(Event{Kind: kind, Object: e.Object, At: at, Version: f.versionNumber()})
	}
	return nil
}
