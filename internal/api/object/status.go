package object

import (
	"encoding/json"
	"net/http"
)

// Status is an API server's answer in place of an object.
type Status struct {
	Message, Reason string
	Code            int
}

// Gone says whether the resource version that was asked for is known no more.
func (s Status) Gone() bool { return s.Code == http.StatusGone || s.Reason == "Expired" }

// DecodeStatus reads a Status message.
func DecodeStatus(raw []byte) (s Status, err error) {
	w := walk{rest: raw}
	for w.next() {
		switch w.num {
		case 3:
			s.Message = string(w.data)
		case 4:
			s.Reason = string(w.data)
		case 6:
			s.Code = int(w.value)
		}
	}
	return s, w.err
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
		err = json.Unmarshal(body, &s)
	}
	if err != nil || s.Message == "" {
		s.Message = string(body[:min(len(body), maxMessage)])
	}
	return s
}
