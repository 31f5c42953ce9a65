package partition

import "fmt"

// State is what became of a partition.
type State uint8

// The states, a closed set. The zero value is none of them.
const (
	// Covered: a committed pane's coverage holds it.
	Covered State = iota + 1
	// SkippedThenCovered: an advance jumped over it, and its coverage held it all the same.
	SkippedThenCovered
	// NeverCovered: a gap; no pane ever spoke for it.
	NeverCovered
	// Late: objects came after every rule of coverage had passed it.
	Late
	// Quarantined: in the future or implausible.
	Quarantined
)

var stateNames = [...]string{Covered: "covered", SkippedThenCovered: "skipped_then_covered", NeverCovered: "never_covered", Late: "late", Quarantined: "quarantined"}

// ParseState reads what String wrote.
func ParseState(s string) (State, error) {
	for i, name := range stateNames {
		if i > 0 && s == name {
			return State(i), nil
		}
	}
	return 0, fmt.Errorf("ledger state %q: not one of covered, skipped_then_covered, never_covered, late, quarantined", s)
}

// Valid reports whether s is one of the states.
func (s State) Valid() bool { return s >= Covered && s <= Quarantined }

func (s State) String() string {
	if s.Valid() {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}
