package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/share/message"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
	facts "github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/share"
)

// Send has the workers send a part of the load.
func (w *Workers) Send(ctx context.Context, part steps.Part, known inventory.Changes, plan load.Plan) ([]inventory.Changes, error) {
	asked, err := plan.Asked()
	if err != nil {
		return nil, err
	}
	mine := message.Digest(asked, plan)
	records := w.run.Records
	records.Event(record.Event{At: w.run.Clock.Now(), Type: record.EventLoadAsked, Name: part.Step, Detail: asked})
	outcomes, at, err := w.leader.Do(ctx, w.run.senderGroup(), message.Order{Part: part, Known: known}, func(_ int, said json.RawMessage) error {
		var p message.Prepared
		if err := json.Unmarshal(said, &p); err != nil {
			return err
		}
		if p.Digest != mine {
			return fmt.Errorf("%w: it has planned other calls of step %s than the leader", message.ErrWorkers, part)
		}
		return nil
	})
	if at == 0 {
		return nil, err
	}
	ended := readOutcomes(part, at, asked.Count, outcomes)
	for _, worker := range ended.lost {
		w.replayLost(worker, at, outcomes[worker].Clock, plan)
	}
	if err != nil {
		return ended.seen, err
	}
	for _, e := range ended.events {
		records.Event(e)
	}
	return ended.seen, ended.err
}

// sharedEnd is what became of a part of the load.
type sharedEnd struct {
	events []record.Event      // the share of each worker, and what it ended with
	seen   []inventory.Changes // what workers saw of the objects
	lost   []int               // workers that were lost in it: what they saw is not in seen
	err    error               // of those that failed; a loss is none
}

// readOutcomes tells what the outcomes of all senders mean, of a part of so many calls that
// began at a time.
func readOutcomes(part steps.Part, at clock.Time, calls int, outcomes []protocol.Outcome) (out sharedEnd) {
	for i, o := range outcomes {
		its := share.Share{Index: i, Of: len(outcomes)}
		e := record.Event{At: at, Type: record.EventWorkerShare, Name: part.Step, Detail: record.Detail{Worker: i, Count: its.Count(calls)}}
		switch {
		case errors.Is(o.Err, protocol.ErrLost):
			e.Text = o.Err.Error()
			out.lost = append(out.lost, i)
		case o.Err != nil:
			e.Text = o.Err.Error()
			out.err = errors.Join(out.err, fmt.Errorf("worker %d: %w", i, o.Err))
		}
		out.events = append(out.events, e)
		var said message.Sent
		if o.Ended != nil && json.Unmarshal(o.Ended, &said) == nil {
			out.seen = append(out.seen, said.Seen)
		}
	}
	return out
}

// replayLost tells a plan how those calls ended of a worker that was lost in it that its
// records have: what it would have said of the objects.
func (w *Workers) replayLost(worker int, begin clock.Time, stands protocol.Clock, plan load.Plan) {
	if plan.Done == nil {
		return
	}
	from := begin.Add(-stands.Offset - stands.Bound)
	ops := map[record.Op]int{}
	for i, op := range plan.Ops {
		ops[op] = i
	}
	err := facts.EndedCalls(w.run.Dir, worker, func(of record.Op, v record.Call) {
		if op, ok := ops[of]; ok && v.Due >= from {
			plan.Done(load.Result{
				Index: int(v.Number) - 1, Op: op, Attempt: int(v.Attempt), Reached: v.Reached, Last: true, Outcome: v.Outcome,
				Response: &wire.Response{Code: int(v.Code), Err: lostAnswer(v)},
			})
		}
	})
	if err != nil {
		w.run.Log.Warn("the records of a lost worker cannot be read", slog.Int("worker", worker), slog.Any("error", err))
	}
}

// lostAnswer is the error of a call whose answer the records do not have.
func lostAnswer(v record.Call) error {
	if v.Outcome == record.OK || v.Code >= http.StatusBadRequest {
		return nil
	}
	return errors.New("its worker was lost")
}
