package subject

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
)

const (
	// answeredWithin bounds one call: an answer that was lost costs no more.
	answeredWithin = 10 * time.Second
	// patience is after how many looks an object that is still there is deleted
	// once more; then after twice as many, and so on.
	patience = 4
)

// errRefused says that there is no use in trying again.
var errRefused = errors.New("it is not allowed")

// Delete deletes the objects at these paths, in their order, and waits until
// they are gone. One that is still there is deleted again now and then: the
// first call may have been lost, or refused by a busy server. What must not be
// deleted or looked at (403) is not asked for again. Every path that was left
// behind has an error; ctx bounds the whole.
func Delete(ctx context.Context, client discovery.Doer, paths []string) error {
	var faults []error
	why := map[string]error{} // of those that are left
	for _, path := range paths {
		why[path] = remove(ctx, client, path)
	}
	for look, again := 1, patience; len(why) > 0; look++ {
		for _, path := range paths {
			before, left := why[path]
			switch {
			case !left:
			case before == nil: // gone
				delete(why, path)
			case errors.Is(before, errRefused):
				faults = append(faults, fmt.Errorf("delete %s: %w", path, before))
				delete(why, path)
			case ctx.Err() == nil:
				why[path] = next(ctx, client, path, look == again, before)
			}
		}
		if look == again {
			again *= 2
		}
		if len(why) > 0 && clock.Sleep(ctx, pollEvery) != nil {
			for _, path := range paths {
				if err := why[path]; err != nil {
					faults = append(faults, fmt.Errorf("delete %s: %w: %w", path, context.Cause(ctx), err))
				}
			}
			break
		}
	}
	return errors.Join(faults...)
}

// next looks whether an object is gone, and deletes it again where it is time
// for that. It keeps what is known of why the object is there still.
func next(ctx context.Context, client discovery.Doer, path string, again bool, before error) error {
	err := call(ctx, client, http.MethodGet, path)
	if errors.Is(err, errStillThere) {
		err = before // which says how its deletion was answered
	}
	if err != nil && again && !errors.Is(err, errRefused) {
		return remove(ctx, client, path)
	}
	return err
}

// remove deletes an object once.
func remove(ctx context.Context, client discovery.Doer, path string) error {
	return call(ctx, client, http.MethodDelete, path)
}

// call returns nil when the answer is that there is no such object.
func call(ctx context.Context, client discovery.Doer, method, path string) error {
	ctx, cancel := context.WithTimeout(ctx, answeredWithin)
	defer cancel()
	answer, err := client.Do(ctx, &wire.Request{Method: method, Path: path})
	switch {
	case err != nil:
		return err
	case answer.Code == http.StatusNotFound:
		return nil
	case answer.Code == http.StatusForbidden:
		return fmt.Errorf("%w: %w", errRefused, answer.Refusal())
	case !answer.Success() && answer.Code != http.StatusConflict: // a namespace that is on its way out answers so
		return answer.Refusal()
	}
	return errStillThere
}
