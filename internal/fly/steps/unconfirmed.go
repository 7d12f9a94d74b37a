package steps

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
)

var (
	errForeign = errors.New("it exists already, and this run has not made it")
	errLost    = errors.New("its creation was not answered, and it is not there")
)

// newSettling is what follows a plan that made objects.
func (s *Session) newSettling(o *Objects) func(ctx context.Context, sent error) error {
	return func(ctx context.Context, sent error) error {
		if sent != nil {
			return sent
		}
		return s.settleUnconfirmed(ctx, o)
	}
}

// settleUnconfirmed asks for the unconfirmed objects: the stamp tells whether one is the
// run's. What is not is neither changed nor deleted by any step.
func (s *Session) settleUnconfirmed(ctx context.Context, o *Objects) error {
	for n := range o.TakeUnconfirmed() {
		namespace, name, err := o.addressOf(n)
		if err != nil {
			continue // the server named it: only its stamp finds it again
		}
		number, path := o.layout.NumberOf(n), o.items[n.Item].resource.Object(namespace, name)
		uid, err := s.ownUID(ctx, path, o.stamp.Run)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			o.Refuse(number, fmt.Sprintf("%s/%s: %v", namespace, name, err))
			continue
		}
		o.SetUID(number, uid)
	}
	return nil
}

// ownUID returns the UID of the object at a path, or an error if it is not the
// run's.
func (s *Session) ownUID(ctx context.Context, path, run string) (string, error) {
	answer, err := s.Client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path})
	switch {
	case err != nil:
		return "", err
	case answer.Code == http.StatusNotFound:
		return "", errLost
	case !answer.Success():
		return "", answer.Refusal()
	}
	about, err := object.ReadMetadata(answer.Body)
	if err == nil && about.Labels[object.RunLabel] != run {
		err = errForeign
	}
	return about.UID, err
}
