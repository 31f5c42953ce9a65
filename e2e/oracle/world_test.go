package oracle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
)

// id is one version of an object.
type id struct{ key, etag string }

// object is what the bucket holds under a key.
type object struct {
	id
	part int
}

// world is the source bucket and the clock. Partitions are counted in granules
// from an epoch.
type world struct {
	layout  string
	granule time.Duration
	epoch   time.Time
	now     int // the partition in which the clock stands
	raw     *mem.Store

	objects  map[string]object
	versions map[id][]record // of every version there ever was
	parts    map[string]int  // of every key there ever was
	serial   int
}

func newWorld(hours bool) *world {
	w := &world{
		layout: "%Y/%m/%d/%H/%M", granule: time.Minute, epoch: time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC), now: 100,
		raw: mem.New("raw"), objects: map[string]object{}, versions: map[id][]record{}, parts: map[string]int{},
	}
	if hours {
		w.layout, w.granule = "%Y/%m/%d/%H", time.Hour
	}
	return w
}

// start is when a partition starts.
func (w *world) start(part int) time.Time { return w.epoch.Add(time.Duration(part) * w.granule) }

// partOf is the partition that starts at t.
func (w *world) partOf(t time.Time) int { return int(t.Sub(w.epoch) / w.granule) }

// clock is inside the current partition.
func (w *world) clock() time.Time { return w.start(w.now).Add(w.granule / 2) }

func (w *world) newKey(part int) string {
	w.serial++
	dir := w.start(part).Format("2006/01/02/15/04/")
	if w.granule == time.Hour {
		dir = w.start(part).Format("2006/01/02/15/")
	}
	return fmt.Sprintf("%sp-%04d.ndjson", dir, w.serial)
}

// put writes an object, new or in place of another.
func (w *world) put(ctx context.Context, key string, part int, rows []record) error {
	lines := make([]string, len(rows))
	for i, r := range rows {
		lines[i] = r.line() + "\n"
	}
	etag, err := w.raw.Put(ctx, key, strings.NewReader(strings.Join(lines, "")), store.PutOptions{})
	if err != nil {
		return err
	}
	o := object{id{key, strings.Trim(etag, `"`)}, part}
	w.objects[key], w.versions[o.id], w.parts[key] = o, rows, part
	return nil
}

func (w *world) remove(ctx context.Context, key string) error {
	delete(w.objects, key)
	return w.raw.Delete(ctx, key)
}

// keys are those of the bucket, in order.
func (w *world) keys() []string { return slices.Sorted(maps.Keys(w.objects)) }

// listed are the objects of (after, through] that exist for the pipeline.
func (w *world) listed(after, through, since int) []object {
	var out []object
	for _, k := range w.keys() {
		if o := w.objects[k]; o.part > after && o.part <= through && o.part >= since {
			out = append(out, o)
		}
	}
	return out
}

// newest is the newest partition with an object.
func (w *world) newest(since int) (int, bool) {
	n, ok := 0, false
	for _, o := range w.objects {
		if o.part >= since && o.part <= w.now && (!ok || o.part > n) {
			n, ok = o.part, true
		}
	}
	return n, ok
}

// records are those of one version of an object, in their place.
func (w *world) records(i id, all, recent bool) []placed {
	rows := w.versions[i]
	part := w.parts[i.key]
	out := make([]placed, len(rows))
	for n, r := range rows {
		out[n] = placed{record: r, start: w.start(part), part: part, all: all, recent: recent}
	}
	return out
}
