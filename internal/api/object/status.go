package object

import (
	"encoding/json"
	"net/http"
)

// Status is an API server's answer in place of an object.
type Status struct {
	Message, Reason string
	Code            int
	OtherUID        bool // metadata.uid of the request is not that of the object which has the name
}

// uidField is what an answer blames when a patch names another object's uid.
const uidField = "metadata.uid"

// Gone says whether the resource version that was asked for is known no more.
func (s Status) Gone() bool { return s.Code == http.StatusGone || s.Reason == "Expired" }

// DecodeStatus reads a Status message.
func DecodeStatus(raw []byte) (s Status, err error) {
	w := walk{rest: raw}
	for w.nextField() {
		switch w.num {
		case 3:
			s.Message = string(w.data)
		case 4:
			s.Reason = string(w.data)
		case 5:
			if s.OtherUID, err = blamesField(w.data, uidField); err != nil {
				return s, err
			}
		case 6:
			s.Code = int(w.value)
		}
	}
	return s, w.err
}

// blamesField says whether one of the causes in a StatusDetails message is of a field.
func blamesField(details []byte, field string) (found bool, err error) {
	w := walk{rest: details}
	for w.nextField() {
		if w.num != 4 {
			continue
		}
		cause := walk{rest: w.data}
		for cause.nextField() {
			found = found || cause.num == 3 && string(cause.data) == field
		}
		if cause.err != nil {
			return found, cause.err
		}
	}
	return found, w.err
}

// maxMessage is how much is quoted of a body that is no Status.
const maxMessage = 300

// ReadStatus reads the body of a refusal, JSON or protobuf. The message of one
// that is no Status is the body's beginning.
func ReadStatus(body []byte) (s Status) {
	raw, _, err := Unwrap(body)
	if err == nil {
		s, err = DecodeStatus(raw)
	} else {
		err = s.readJSON(body)
	}
	if err != nil || s.Message == "" {
		s.Message = string(body[:min(len(body), maxMessage)])
	}
	return s
}

func (s *Status) readJSON(body []byte) error {
	var details struct {
		Details struct{ Causes []struct{ Field string } }
	}
	if err := json.Unmarshal(body, s); err != nil {
		return err
	}
	if s.Code == http.StatusUnprocessableEntity && json.Unmarshal(body, &details) == nil {
		for _, c := range details.Details.Causes {
			s.OtherUID = s.OtherUID || c.Field == uidField
		}
	}
	return nil
}
