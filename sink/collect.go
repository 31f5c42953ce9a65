package sink

import (
	"sort"
	"time"
)

// Keeping times that are not configured.
const (
	// OrphanAge is how long after its newest object data that no published pane names is left alone.
	OrphanAge = 24 * time.Hour
	// RecordAge is how long a manifest outlives its data as a record.
	RecordAge = 7 * 24 * time.Hour
)

// Retain says which panes are kept beside the one CURRENT names. The zero value keeps no other.
type Retain struct {
	For   time.Duration // every pane that CURRENT named within this time
	Panes int           // and at least this many
	Bases int           // and the last pane over each of this many bases, newest first
}

// DefaultRetain is output.retain's default.
func DefaultRetain() Retain { return Retain{For: 2 * time.Hour, Panes: 20, Bases: 3} }

// Object is what a listing says of one object. Modified is by the store's clock.
type Object struct {
	Key      string
	Bytes    int64
	Modified time.Time
}

// Published is a pane that CURRENT names or named.
type Published struct {
	RunID   string
	DataIDs []string // the runs whose data it is made of
	Base    string   // generation, or ""
	Written time.Time
}

// Evidence is all that a collection is planned from.
type Evidence struct {
	Head      Head
	Panes     []Published // from the one CURRENT names along the parent links, newest first
	Manifests []Object    // everything under manifests/
	Data      []Object    // everything under delta/
	Rejects   []Object    // everything under rejects/
	Pins      []string    // run ids of pinned panes
	Live      []string    // run ids of runs that are going on or not yet settled
	Now       time.Time   // the store's clock: when something was written lately, never later than that
	Retain    Retain
}

// Collection is what a collection would do: delete data of ids that CURRENT condemns already, delete old records, and then change
// condemned, all of it possible to repeat.
type Collection struct {
	Keep    []string  `json:"keep"`    // run ids of the panes kept
	Bases   []string  `json:"bases"`   // generations of the bases kept
	Delete  []Removal `json:"delete"`  // data to delete now, condemned before
	Records []string  `json:"records"` // keys of manifests, side files and rejected rows whose data is gone for long
	Slices  []string  `json:"slices"`  // keys of slices that no kept pane lists any more
	Condemn []string  `json:"condemn"` // ids to add
	Drop    []string  `json:"drop"`    // condemned ids of which nothing is left once Delete is done
	Waiting int       `json:"waiting"` // ids that would be condemned but for MaxCondemned
	Held    []string  `json:"held"`    // condemned ids that a kept pane is made of: never deleted, for a person to look at
}

// Removal is the data of one condemned id.
type Removal struct {
	ID    string   `json:"id"`
	Why   string   `json:"why"` // superseded or orphan
	Keys  []string `json:"keys"`
	Bytes int64    `json:"bytes"`
}

// Empty says that there is nothing to do.
func (c Collection) Empty() bool {
	return len(c.Delete)+len(c.Records)+len(c.Condemn)+len(c.Drop) == 0
}

// Bytes is how much data Delete frees.
func (c Collection) Bytes() int64 {
	var n int64
	for _, r := range c.Delete {
		n += r.Bytes
	}
	return n
}

// Condemned is the list for the next CURRENT: what was condemned and has been deleted leaves, what is to be deleted next joins. deleted
// says whether Delete was carried out. A publish may carry it, see Commit.
func (c Collection) Condemned(head Head, deleted bool) []string {
	out := []string{}
	drop := map[string]bool{}
	for _, id := range c.Drop {
		drop[id] = deleted
	}
	for _, id := range head.Condemned {
		if !drop[id] {
			out = append(out, id)
		}
	}
	for _, id := range c.Condemn {
		if len(out) < MaxCondemned {
			out = append(out, id)
		}
	}
	return out
}

// PlanCollection decides. It is a pure function of the evidence.
//
// Kept are the pane CURRENT names, those that it named within Retain.For (a pane counts until the manifest of the next was written) and
// at least Retain.Panes, the newest pane over each of the last Retain.Bases bases, and pins. Data of a published pane may go when no
// kept pane is made of it; data and manifests that no published pane names may go OrphanAge after their newest object, unless the run
// is live; records go RecordAge after that, from the far end of the history, so that no kept pane loses its links. All data is condemned first and deleted by a later plan, which sees it in Head.Condemned (Invariant 7).
func PlanCollection(ev Evidence) Collection {
	p := planner{ev: ev, kept: map[string]bool{}, needed: map[string]bool{}, live: setOf(ev.Live), known: map[string]bool{}, linked: map[string]bool{}, ids: map[string]*idObjects{}}
	p.keep()
	p.group()
	return p.plan()
}

type idObjects struct {
	data     []Object
	records  []Object
	modified time.Time
	bytes    int64
}

type planner struct {
	ev     Evidence
	kept   map[string]bool // run ids of kept panes
	needed map[string]bool // data ids kept panes are made of
	known  map[string]bool // run ids of published panes
	linked map[string]bool // those whose manifest links to a kept pane further back
	live   map[string]bool
	ids    map[string]*idObjects
	out    Collection
}

func setOf(ids []string) map[string]bool {
	m := make(map[string]bool, len(ids))
	for _, id := range ids {
		m[id] = true
	}
	return m
}

func (p *planner) keep() {
	pins, bases := setOf(p.ev.Pins), map[string]bool{}
	for i, pane := range p.ev.Panes {
		p.known[pane.RunID] = true
		keep := i == 0 || i < p.ev.Retain.Panes || pins[pane.RunID]
		// A pane was readable until the next one's manifest was written, which is its predecessor in this list.
		keep = keep || p.ev.Now.Sub(p.ev.Panes[i-1].Written) < p.ev.Retain.For
		if pane.Base != "" && !bases[pane.Base] && len(bases) < p.ev.Retain.Bases {
			bases[pane.Base], keep = true, true
		}
		if keep {
			p.kept[pane.RunID] = true
			for _, id := range pane.DataIDs {
				p.needed[id] = true
			}
			p.out.Keep = append(p.out.Keep, pane.RunID)
		}
	}
	for last, i := false, len(p.ev.Panes)-1; i >= 0; i-- {
		p.linked[p.ev.Panes[i].RunID] = last
		last = last || p.kept[p.ev.Panes[i].RunID]
	}
	for id := range pins {
		p.kept[id], p.needed[id] = true, true
	}
	if id := p.ev.Head.RunID; id != "" {
		p.kept[id], p.needed[id] = true, true
	}
}

// group sorts the objects by the run they belong to; what belongs to none is not deltad's and stays.
func (p *planner) group() {
	of := func(id string) *idObjects {
		if p.ids[id] == nil {
			p.ids[id] = &idObjects{}
		}
		return p.ids[id]
	}
	touch := func(g *idObjects, o Object) {
		if o.Modified.After(g.modified) {
			g.modified = o.Modified
		}
	}
	for _, o := range p.ev.Data {
		if id := idOf(o.Key); id != "" {
			g := of(id)
			g.data, g.bytes = append(g.data, o), g.bytes+o.Bytes
			touch(g, o)
		}
	}
	for _, o := range p.ev.Manifests {
		if _, id, _, ok := parseManifestKey(o.Key); ok {
			g := of(id)
			g.records = append(g.records, o)
			touch(g, o)
		}
	}
	for _, o := range p.ev.Rejects {
		if id := rejectsOf(o.Key); id != "" {
			g := of(id)
			g.records = append(g.records, o)
			touch(g, o)
		}
	}
}

func (p *planner) plan() Collection {
	ids := make([]string, 0, len(p.ids))
	for id := range p.ids {
		ids = append(ids, id)
	}
	sort.Strings(ids) // ULIDs: oldest first, so history shortens from its end
	condemned := setOf(p.ev.Head.Condemned)
	for _, id := range p.ev.Head.Condemned {
		switch g := p.ids[id]; {
		case p.needed[id]:
			p.out.Held = append(p.out.Held, id)
		case g == nil || len(g.data) == 0:
			p.out.Drop = append(p.out.Drop, id)
		default:
			p.out.Delete = append(p.out.Delete, p.removal(id, g))
			p.out.Drop = append(p.out.Drop, id)
		}
	}
	room := MaxCondemned - len(p.ev.Head.Condemned)
	for _, id := range ids {
		g := p.ids[id]
		if condemned[id] || p.live[id] || p.needed[id] {
			continue
		}
		age := p.ev.Now.Sub(g.modified)
		switch {
		case len(g.data) == 0:
			if !p.kept[id] && !p.linked[id] && age >= RecordAge+p.ev.Retain.For {
				p.out.Records = append(p.out.Records, keysOf(g.records)...)
			}
		case !p.known[id] && age < OrphanAge:
		case room > 0:
			p.out.Condemn = append(p.out.Condemn, id)
			room--
		default:
			p.out.Waiting++
		}
	}
	return p.out
}

func (p *planner) removal(id string, g *idObjects) Removal {
	why := "superseded"
	if !p.known[id] {
		why = "orphan"
	}
	return Removal{ID: id, Why: why, Keys: keysOf(g.data), Bytes: g.bytes}
}

func keysOf(objects []Object) []string {
	keys := make([]string, len(objects))
	for i, o := range objects {
		keys[i] = o.Key
	}
	return keys
}
