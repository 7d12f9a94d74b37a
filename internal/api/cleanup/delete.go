// Package cleanup takes out of a cluster what a run made there: it finds it by the
// run's stamp, and deletes each object by the UID that it has, so that another of
// the same name stays.
package cleanup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
)

const (
	pollEvery = 50 * time.Millisecond
	// answeredWithin bounds one call: an answer that was lost costs no more.
	answeredWithin = 10 * time.Second
	// patience is after how many looks an object that is still there is deleted
	// once more; then after twice as many, and so on.
	patience = 4
	// atOnce is how many objects of a list without order are dealt with at a time.
	atOnce = 16
)

var (
	errRefused    = errors.New("it is not allowed") // there is no use in trying again
	errStillThere = errors.New("it is still there")
)

// Object is one to be deleted, and no other that bears its name.
type Object struct {
	Path, UID string
	orphan    bool   // who would take finalizers off is dead
	keep      string // the finalizers that stay then, in JSON; empty: none
}

// deleteEach deletes objects, in their order, and waits until they are gone. One that
// is still there is deleted again now and then: the first call may have been
// lost, or refused by a busy server. What must not be deleted or looked at (403)
// is not asked for again. Every object that was left behind has an error; ctx
// bounds the whole.
func deleteEach(ctx context.Context, client discovery.Doer, objects []Object) (faults []error) {
	why := map[Object]error{} // of those that are left
	for _, o := range objects {
		why[o] = o.deleteOnce(ctx, client)
	}
	for look, again := 1, patience; len(why) > 0; look++ {
		for _, o := range objects {
			before, left := why[o]
			switch {
			case !left:
			case before == nil: // gone
				delete(why, o)
			case errors.Is(before, errRefused):
				faults = append(faults, fmt.Errorf("delete %s: %w", o.Path, before))
				delete(why, o)
			case ctx.Err() == nil:
				// A look that the end of the time cut off says less than the one before.
				if now := o.checkGone(ctx, client, look == again, before); now == nil || ctx.Err() == nil {
					why[o] = now
				}
			}
		}
		if look == again {
			again *= 2
		}
		if len(why) > 0 && clock.Sleep(ctx, pollEvery) != nil {
			for _, o := range objects {
				if err := why[o]; err != nil {
					faults = append(faults, fmt.Errorf("delete %s: %w: %w", o.Path, context.Cause(ctx), err))
				}
			}
			break
		}
	}
	return faults
}

// deleteAll is Delete in any order, some at a time. The error names a few.
func deleteAll(ctx context.Context, client discovery.Doer, objects []Object) error {
	all := inParts(objects, func(part []Object) []error { return deleteEach(ctx, client, part) })
	if more := len(all) - maxNamed; more > 0 {
		all = append(all[:maxNamed], fmt.Errorf("and %d more", more))
	}
	return errors.Join(all...)
}

// inParts deals with objects in any order, some at a time.
func inParts(objects []Object, each func([]Object) []error) []error {
	parts := make([][]Object, min(atOnce, len(objects)))
	for i, o := range objects {
		parts[i%len(parts)] = append(parts[i%len(parts)], o)
	}
	faults := make([][]error, len(parts))
	var wait guard.Group
	for i := range parts {
		wait.Go(func() { faults[i] = each(parts[i]) })
	}
	wait.Wait()
	return slices.Concat(faults...)
}

// maxNamed is how many objects that were left behind an error names.
const maxNamed = 5

// checkGone looks whether an object is gone, and deletes it again where it is time
// for that. It keeps what is known of why the object is there still.
func (o Object) checkGone(ctx context.Context, client discovery.Doer, again bool, before error) error {
	err := o.callUntilGone(ctx, client, &wire.Request{Method: http.MethodGet, Path: o.Path})
	if errors.Is(err, errStillThere) {
		err = keepReason(before, err)
	}
	if err != nil && again && !errors.Is(err, errRefused) {
		return o.deleteOnce(ctx, client)
	}
	return err
}

// keepReason keeps what a deletion was answered with; finalizers say more.
func keepReason(before, now error) error {
	if errors.Is(before, errStillThere) {
		return now
	}
	return before
}

// deleteOnce deletes an object once, with what belongs to it. An orphan loses finalizers.
func (o Object) deleteOnce(ctx context.Context, client discovery.Doer) error {
	body := fmt.Sprintf(`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background","preconditions":{"uid":%q}}`, o.UID)
	err := o.callUntilGone(ctx, client, &wire.Request{Method: http.MethodDelete, Path: o.Path, ContentType: "application/json", Body: []byte(body)})
	if !o.orphan || !errors.Is(err, errStillThere) {
		return err
	}
	body = fmt.Sprintf(`{"metadata":{"uid":%q,"finalizers":%s}}`, o.UID, cmp.Or(o.keep, "null"))
	return o.callUntilGone(ctx, client, &wire.Request{Method: http.MethodPatch, Path: o.Path, ContentType: "application/merge-patch+json", Body: []byte(body)})
}

// callUntilGone returns nil when the answer is that there is no such object.
func (o Object) callUntilGone(ctx context.Context, client discovery.Doer, req *wire.Request) error {
	ctx, cancel := context.WithTimeout(ctx, answeredWithin)
	defer cancel()
	answer, err := client.Do(ctx, req)
	switch {
	case err != nil:
		return err
	case answer.Code == http.StatusNotFound:
		return nil
	case answer.Code == http.StatusForbidden:
		return fmt.Errorf("%w: %w", errRefused, answer.Refusal())
	case !answer.Success() && answer.Code != http.StatusConflict: // a namespace that is on its way out answers so, and an object with another UID
		return answer.Refusal()
	}
	found, err := object.ReadMetadata(answer.Body) // a deletion is answered with the object while finalizers hold it
	switch {
	case req.Method == http.MethodGet && err == nil && found.UID != o.UID:
		return nil // ours is gone: this is another
	case len(found.Finalizers) > 0:
		return fmt.Errorf("%w, held by %s", errStillThere, strings.Join(found.Finalizers, ", "))
	}
	return errStillThere
}
