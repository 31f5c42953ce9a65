package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/deltad/deltad/watermark"
)

type requests struct{ c *core }

const requestColumns = `SELECT seq, id, pipeline, kind, actor, reason, CAST(args AS text) AS args, state, taken_epoch,
	CAST(result AS text) AS result, created_at, finished_at FROM deltad_request`

func decodeRequest(r Row) (watermark.Request, error) {
	d := decode(r, "deltad_request", "")
	var rq watermark.Request
	rq.Pipeline = d.named("pipeline")
	d.pipeline = rq.Pipeline
	rq.ID = d.named("id")
	rq.Kind = d.named("kind")
	rq.Actor = d.text("actor")
	rq.Reason = d.text("reason")
	rq.Args = d.object("args")
	rq.State = oneOf(d, "state", watermark.RequestPending, watermark.RequestTaken, watermark.RequestDone, watermark.RequestFailed)
	rq.TakenEpoch = d.number("taken_epoch", 0)
	rq.Result = d.object("result")
	rq.CreatedAt = d.instant("created_at")
	rq.FinishedAt = d.nullable("finished_at")
	return rq, d.err
}

// Enqueue adds a request. See [watermark.Requests].
func (s requests) Enqueue(ctx context.Context, rq watermark.Request) error {
	var c checks
	c.ulid("request id", rq.ID)
	c.name("pipeline", rq.Pipeline)
	c.name("kind", rq.Kind)
	c.name("actor", rq.Actor)
	args := c.document("args", rq.Args)
	if c.err != nil {
		return c.err
	}
	return s.c.update(ctx, "queue request "+rq.ID, func(q *query) error {
		n, err := q.exec(`INSERT INTO deltad_request (id, pipeline, kind, actor, reason, args, state, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, 'pending', @now) ON CONFLICT (id) DO NOTHING`,
			rq.ID, rq.Pipeline, rq.Kind, rq.Actor, free(rq.Reason), args)
		if err != nil || n == 1 {
			return err
		}
		old, _, err := readRequest(q, rq.ID, false)
		if err == nil && (old.Pipeline != rq.Pipeline || old.Kind != rq.Kind || !sameJSON(string(old.Args), args)) {
			err = fmt.Errorf("%w: request %s is a %s of %s with other arguments", watermark.ErrReused, rq.ID, old.Kind, old.Pipeline)
		}
		return err
	})
}

// sameJSON compares two documents by what they say: a database may write them in
// its own way.
func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// TakeRequests are all unfinished requests. See [watermark.Requests].
func (s requests) TakeRequests(ctx context.Context, l watermark.Lease) ([]watermark.Request, error) {
	var c checks
	c.lease(l)
	if c.err != nil {
		return nil, c.err
	}
	const open = ` WHERE pipeline = $1 AND state IN ('pending', 'taken') ORDER BY seq`
	// Almost always there is none: that is found without a write transaction.
	some := false
	what := "take requests of " + l.Pipeline
	if err := s.c.view(ctx, what, func(q *query) error {
		rows, err := q.rows(requestColumns+open, l.Pipeline)
		some = len(rows) > 0
		return err
	}); err != nil || !some {
		return nil, err
	}
	var out []watermark.Request
	err := s.c.update(ctx, what, func(q *query) error {
		out = nil
		if _, err := fence(q, l); err != nil {
			return err
		}
		if _, err := q.exec(`UPDATE deltad_request SET state = 'taken', taken_epoch = $2
			WHERE pipeline = $1 AND state IN ('pending', 'taken')`, l.Pipeline, l.Epoch); err != nil {
			return err
		}
		rows, err := q.rows(requestColumns+open, l.Pipeline)
		if err != nil {
			return err
		}
		for _, r := range rows {
			rq, err := decodeRequest(r)
			if err != nil {
				return err
			}
			if rq.State == watermark.RequestTaken { // one queued since the UPDATE waits for the next call
				out = append(out, rq)
			}
		}
		return nil
	})
	return out, err
}

// FinishRequest ends a request. See [watermark.Requests].
func (s requests) FinishRequest(ctx context.Context, l watermark.Lease, id string, state watermark.RequestState, result json.RawMessage) error {
	var c checks
	c.lease(l)
	c.ulid("request id", id)
	c.that(state == watermark.RequestDone || state == watermark.RequestFailed, "request state %q does not end it", state)
	text := c.document("result", result)
	if c.err != nil {
		return c.err
	}
	return s.c.update(ctx, "finish request "+id, func(q *query) error {
		if _, err := fence(q, l); err != nil {
			return err
		}
		rq, found, err := readRequest(q, id, true)
		switch {
		case err != nil:
			return err
		case !found || rq.Pipeline != l.Pipeline:
			return fmt.Errorf("request %s of %s: %w", id, l.Pipeline, watermark.ErrNotFound)
		case rq.State == state:
			return nil
		case rq.State == watermark.RequestDone || rq.State == watermark.RequestFailed:
			return fmt.Errorf("%w: request is %s already", watermark.ErrConflict, rq.State)
		}
		_, err = q.exec(`UPDATE deltad_request SET state = $2, result = $3, finished_at = @now WHERE id = $1`,
			id, string(state), text)
		return err
	})
}

func readRequest(q *query, id string, lock bool) (watermark.Request, bool, error) {
	sql := requestColumns + ` WHERE id = $1`
	if lock {
		sql += "@lock"
	}
	r, found, err := q.one(sql, id)
	if err != nil || !found {
		return watermark.Request{}, false, err
	}
	rq, err := decodeRequest(r)
	return rq, true, err
}

// RequestByID finds a request. See [watermark.Requests].
func (s requests) RequestByID(ctx context.Context, id string) (watermark.Request, error) {
	var rq watermark.Request
	if err := known(id); err != nil {
		return rq, err
	}
	err := s.c.view(ctx, "read request "+id, func(q *query) error {
		var found bool
		var err error
		rq, found, err = readRequest(q, id, false)
		if err == nil && !found {
			err = watermark.ErrNotFound
		}
		return err
	})
	return rq, err
}
