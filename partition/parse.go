package partition

import (
	"fmt"
	"strings"
	"time"
)

// Verdict is what a layout says of a key or a directory.
type Verdict uint8

const (
	// OK belongs to a partition (a directory: may hold some).
	OK Verdict = iota
	// Foreign is not of this layout and no concern of ours.
	Foreign
	// Ignore is left out by default: see the function Ignored.
	Ignore
	// Quarantine looks like a partition but cannot be one; Reason says why. It is reported and never used.
	Quarantine
)

func (v Verdict) String() string {
	switch v {
	case OK:
		return "ok"
	case Foreign:
		return "not of this layout"
	case Ignore:
		return "ignored"
	case Quarantine:
		return "quarantined"
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// Key is what a layout says of one key.
type Key struct {
	Verdict Verdict
	// Start is the start of the partition, if OK.
	Start time.Time
	// Prefix is the partition's prefix as the key spells it, without a trailing slash, if OK. Canonical is the same as the layout would
	// spell it; only unpadded numbers have two spellings. Two different prefixes with one Canonical are a clash.
	Prefix, Canonical string
	// Rest is what follows Prefix and its slash, if OK.
	Rest string
	// Dead is the shortest directory of the key, with its slash, that can hold nothing of use; "" if there is none. A listing may jump
	// over all of it.
	Dead string
	// Reason is for people, unless OK.
	Reason string
}

// Parse judges a key relative to the source (and to the configured prefix, if any). Size is the object's, in bytes.
func (l *Layout) Parse(rel string, size int64) Key {
	p := Parser{layout: l}
	return p.Parse(rel, size)
}

// Parser judges keys as Layout.Parse does, and is cheaper where keys follow each other that lie in the same directories, as in a listing.
type Parser struct {
	layout *Layout
	dirs   []Dir // those of the key before, outermost first, as far as they may hold partitions
}

// Parser returns a parser of the layout's keys. It is for one goroutine.
func (l *Layout) Parser() *Parser { return &Parser{layout: l} }

// Parse is Layout.Parse.
func (p *Parser) Parse(rel string, size int64) Key {
	if size == 0 && (rel == "" || strings.HasSuffix(rel, "/")) {
		return Key{Verdict: Ignore, Reason: "directory marker"}
	}
	l := p.layout
	for n := len(p.dirs); n > 0 && !p.dirs[n-1].holds(rel); n-- {
		p.dirs = p.dirs[:n-1]
	}
	from := 0
	if n := len(p.dirs); n > 0 {
		from = len(p.dirs[n-1].Path) + 1
	}
	for len(p.dirs) < len(l.segments) {
		i := strings.IndexByte(rel[from:], '/')
		if i < 0 {
			if name := rel[from:]; name != "" && (name[0] == '_' || name[0] == '.') {
				return Key{Verdict: Ignore, Reason: fmt.Sprintf("%q begins with %q", name, name[:1])}
			}
			return Key{Verdict: Foreign, Reason: "not below a partition's prefix"}
		}
		var d Dir
		if n := len(p.dirs); n > 0 {
			d = p.dirs[n-1]
		}
		verdict, reason := l.enter(&d, rel[:from+i], rel[from:from+i])
		from += i + 1
		if verdict != OK {
			return Key{Verdict: verdict, Reason: reason, Dead: rel[:from]}
		}
		p.dirs = append(p.dirs, d)
	}
	rest := rel[from:]
	if tree, ignored := ignoredTree(rest); ignored {
		k := Key{Verdict: Ignore, Reason: "a segment below the prefix begins with _ or ."}
		if tree != "" {
			k.Dead = rel[:from] + tree
		}
		return k
	}
	d := &p.dirs[len(p.dirs)-1]
	return Key{Verdict: OK, Start: l.Floor(d.label), Prefix: d.Path, Canonical: l.canonical(d), Rest: rest}
}

// holds says whether a key lies below d.
func (d *Dir) holds(rel string) bool {
	return len(rel) > len(d.Path) && rel[len(d.Path)] == '/' && rel[:len(d.Path)] == d.Path
}

// canonical is the path of a directory of full depth as the layout would spell it.
func (l *Layout) canonical(d *Dir) string {
	if l.padded && l.fixed {
		return d.Path // there is no other spelling
	}
	return l.format(d.label, len(l.segments))
}

// Dir is a directory on the way down to partitions; the zero value is the top.
type Dir struct {
	// Path is relative, as spelled, without a trailing slash.
	Path string
	// Level is the number of segments in Path. At Layout.Depth it is a partition's prefix.
	Level int

	have  [fields]bool
	value [fields]int64
	label time.Time // at full depth: the first instant of the label
}

// Label is the first instant of the label that a prefix of full depth spells.
func (d Dir) Label() time.Time { return d.label }

// Child judges the directory name below d, which must not be at full depth.
func (l *Layout) Child(d Dir, name string) (Dir, Verdict, string) {
	path := name
	if d.Path != "" {
		path = d.Path + "/" + name
	}
	verdict, reason := l.enter(&d, path, name)
	return d, verdict, reason
}

// enter makes d its child of a name, whose path is given.
func (l *Layout) enter(d *Dir, path, name string) (Verdict, string) {
	tokens := l.segments[d.Level]
	var digits [8]string // no segment of sense has more placeholders
	numbers, ok := match(tokens, name, digits[:0])
	if !ok {
		return mismatch(tokens, name), l.mismatchReason(tokens, name)
	}
	d.Path, d.Level = path, d.Level+1
	i := 0
	for t := range tokens {
		tok := &tokens[t]
		if !tok.placeholder {
			continue
		}
		v, reason := number(tok, numbers[i])
		i++
		if reason == "" && d.have[tok.field] && d.value[tok.field] != v {
			reason = fmt.Sprintf("%s is both %d and %d", tok.field, d.value[tok.field], v)
		}
		if reason != "" {
			return Quarantine, reason
		}
		d.have[tok.field], d.value[tok.field] = true, v
	}
	if reason := d.impossible(); reason != "" {
		return Quarantine, reason
	}
	if d.Level < len(l.segments) {
		return OK, ""
	}
	label, reason := l.resolveLabel(d)
	if reason != "" {
		return Quarantine, reason
	}
	d.label = label
	return OK, ""
}

// match cuts a name into the digits of its placeholders, which it appends. A number whose end can be seen takes all its digits, so that a
// wrong count is found and named; one that runs into the next takes its width.
func match(tokens []token, name string, numbers []string) (_ []string, ok bool) {
	rest := name
	for i := range tokens {
		tok := &tokens[i]
		if !tok.placeholder {
			if rest, ok = strings.CutPrefix(rest, tok.literal); !ok {
				return nil, false
			}
			continue
		}
		n := 0
		for n < len(rest) && isDigit(rest[n]) {
			n++
		}
		if i+1 < len(tokens) && (tokens[i+1].placeholder || isDigit(tokens[i+1].literal[0])) {
			if n < tok.width {
				return nil, false
			}
			n = tok.width
		}
		if n == 0 {
			return nil, false
		}
		numbers, rest = append(numbers, rest[:n]), rest[n:]
	}
	return numbers, rest == ""
}

// mismatch judges a name that the segment's tokens do not match.
func mismatch(tokens []token, name string) Verdict {
	switch {
	case name != "" && (name[0] == '_' || name[0] == '.'):
		return Ignore
	case looksNumeric(tokens, name), looksHive(tokens, name):
		return Quarantine
	}
	return Foreign
}

// looksNumeric: all digits where the layout wants another number of digits.
func looksNumeric(tokens []token, name string) bool {
	for _, tok := range tokens {
		if !tok.placeholder {
			return false
		}
	}
	return name != "" && strings.Trim(name, "0123456789") == ""
}

// looksHive: the column's name is right, the value is no time, such as dt=__HIVE_DEFAULT_PARTITION__.
func looksHive(tokens []token, name string) bool {
	return len(tokens) > 1 && !tokens[0].placeholder && strings.HasSuffix(tokens[0].literal, "=") && strings.HasPrefix(name, tokens[0].literal)
}

func (l *Layout) mismatchReason(tokens []token, name string) string {
	var want strings.Builder
	for _, tok := range tokens {
		want.WriteString(tok.String())
	}
	return fmt.Sprintf("%q does not match %s", name, want.String())
}

// number reads the digits of one placeholder, and says what is wrong with them.
func number(tok *token, digits string) (v int64, reason string) {
	if tok.padded && len(digits) != tok.width {
		if len(digits) < tok.width && tok.field != epoch && tok.field != year {
			return 0, fmt.Sprintf("%s %q is not padded to %d digits", tok.field, digits, tok.width)
		}
		return 0, fmt.Sprintf("%s %q has %d digits, not %d", tok.field, digits, len(digits), tok.width)
	}
	if len(digits) > tok.width {
		return 0, fmt.Sprintf("%s %q has more than %d digits", tok.field, digits, tok.width)
	}
	for i := range len(digits) {
		v = v*10 + int64(digits[i]-'0')
	}
	if tok.field == year && tok.width == 2 {
		v += 2000
	}
	lo, hi := limits(tok.field)
	switch {
	case v >= lo && v <= hi:
		return v, ""
	case tok.field == year:
		return 0, fmt.Sprintf("year %d is implausible", v)
	}
	return 0, fmt.Sprintf("%s %d does not exist", tok.field, v)
}

func limits(f field) (lo, hi int64) {
	switch f {
	case year:
		return 1970, 2199
	case month:
		return 1, 12
	case dayOfMonth:
		return 1, 31
	case dayOfYear:
		return 1, 366
	case hour:
		return 0, 23
	case minute, second:
		return 0, 59
	}
	return 0, 9_999_999_999 // ten digits, leading zeros and all
}

// impossible names a day that the fields known so far cannot have.
func (d *Dir) impossible() string {
	y, m, n := d.value[year], d.value[month], d.value[dayOfMonth]
	if d.have[dayOfMonth] && d.have[month] {
		ref := y
		if !d.have[year] {
			ref = 2000 // a leap year: the day may exist
		}
		if t := time.Date(int(ref), time.Month(m), int(n), 0, 0, 0, 0, time.UTC); int64(t.Day()) != n {
			return fmt.Sprintf("day %02d/%02d does not exist", m, n)
		}
	}
	if d.have[dayOfYear] && d.have[year] {
		t := time.Date(int(y), 1, int(d.value[dayOfYear]), 0, 0, 0, 0, time.UTC)
		switch {
		case int64(t.Year()) != y:
			return fmt.Sprintf("day of year %d does not exist in %d", d.value[dayOfYear], y)
		case d.have[month] && int64(t.Month()) != m, d.have[dayOfMonth] && int64(t.Day()) != n:
			return fmt.Sprintf("day of year %d is not the day that month and day name", d.value[dayOfYear])
		}
	}
	return ""
}

// resolveLabel turns the fields of a prefix of full depth into the first instant of its label.
func (l *Layout) resolveLabel(d *Dir) (time.Time, string) {
	if l.epochal {
		t := unix(d.value[epoch])
		local := unix(l.wall(t))
		for f := year; f < epoch; f++ {
			if d.have[f] && d.value[f] != valueOf(f, t, local) {
				return t, fmt.Sprintf("%s %d is not that of epoch %d", f, d.value[f], d.value[epoch])
			}
		}
		return t, ""
	}
	w := d.wall()
	if l.fixed {
		return unix(w - l.offset), ""
	}
	t, exists := firstInstant(l.loc, w, l.unit)
	if !exists {
		return t, fmt.Sprintf("local time %s does not exist in %s (daylight saving skips it)", unix(w).Format("2006-01-02 15:04"), l.loc)
	}
	return t, ""
}

// wall is the wall-clock time of a complete label.
func (d *Dir) wall() int64 {
	y, m, n := int(d.value[year]), time.Month(1), int(d.value[dayOfYear])
	if d.have[month] && d.have[dayOfMonth] {
		m, n = time.Month(d.value[month]), int(d.value[dayOfMonth])
	}
	return time.Date(y, m, n, int(d.value[hour]), int(d.value[minute]), int(d.value[second]), 0, time.UTC).Unix()
}

// Latest bounds what may lie below d: no label below it that is not after that of hi is later than the returned order. Orders compare among
// directories of one layout; at full depth the order is exact. Not ok means that every label below d is after that of hi.
func (l *Layout) Latest(d Dir, hi time.Time) (order int64, ok bool) {
	limit := l.wall(hi)
	switch {
	case l.epochal && d.have[epoch]:
		return d.value[epoch], d.value[epoch] <= hi.Unix()
	case l.epochal:
		// Labels are instants, the other fields local time: no offset exceeds a day, so a day more is a bound.
		order, ok = d.latestWall(limit + secondsPerDay)
		return min(order+secondsPerDay, hi.Unix()), ok
	case d.Level == len(l.segments):
		w := d.wall()
		return w, w <= limit
	}
	return d.latestWall(limit)
}

const secondsPerDay = int64(day / time.Second)

// latestWall is the latest local time not after limit that the known fields allow.
func (d *Dir) latestWall(limit int64) (int64, bool) {
	if d.have[year] {
		limit = min(limit, time.Date(int(d.value[year]), 12, 31, 23, 59, 59, 0, time.UTC).Unix())
	}
	today := floorDiv(limit, secondsPerDay)
	for n := today; n > today-9*366; n-- { // 29 February comes once in at most eight years
		at := unix(n * secondsPerDay)
		if d.have[year] && int64(at.Year()) != d.value[year] {
			break
		}
		if d.have[month] && int64(at.Month()) != d.value[month] || d.have[dayOfMonth] && int64(at.Day()) != d.value[dayOfMonth] ||
			d.have[dayOfYear] && int64(at.YearDay()) != d.value[dayOfYear] {
			continue
		}
		if last, fits := d.latestInDay(n*secondsPerDay, limit); fits {
			return last, true
		}
	}
	return 0, false
}

// latestInDay is the last second of the day that the known hour, minute and second allow, not after limit where that decides.
func (d *Dir) latestInDay(midnight, limit int64) (int64, bool) {
	known := func(f field, otherwise int64) int64 {
		if d.have[f] {
			return d.value[f]
		}
		return otherwise
	}
	if earliest := midnight + known(hour, 0)*3600 + known(minute, 0)*60 + known(second, 0); earliest > limit {
		return 0, false
	}
	return min(limit, midnight+known(hour, 23)*3600+known(minute, 59)*60+known(second, 59)), true
}

// Earliest is the first instant that any label below d can have, for directories of a lexical layout.
func (l *Layout) Earliest(d Dir) time.Time {
	switch {
	case d.Level == len(l.segments):
		return d.label
	case d.have[epoch]:
		return unix(d.value[epoch])
	}
	first := d
	if !first.have[year] {
		return l.oldest
	}
	first.value[month], first.value[dayOfMonth] = max(1, d.value[month]), max(1, d.value[dayOfMonth])
	first.have[month], first.have[dayOfMonth] = !d.have[dayOfYear], !d.have[dayOfYear]
	w := first.wall()
	for range 48 { // a label that daylight saving skipped begins with the one after it
		if t, exists := firstInstant(l.loc, w, l.unit); exists {
			return t
		}
		w += int64(l.unit / time.Second)
	}
	return unix(w)
}

// Column is one name=value segment of a key.
type Column struct {
	Name  string
	Value string // as in the key: nothing is decoded
}

// PathColumns returns the hive-style name=value directories of a key relative to the source, those of the layout and those below it, in
// the order of the path. The file's own name is not one.
func PathColumns(rel string) []Column {
	var out []Column
	for {
		i := strings.IndexByte(rel, '/')
		if i < 0 {
			return out
		}
		if name, value, ok := strings.Cut(rel[:i], "="); ok && name != "" {
			out = append(out, Column{Name: name, Value: value})
		}
		rel = rel[i+1:]
	}
}
