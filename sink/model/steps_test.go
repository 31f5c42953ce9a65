package model

import (
	"errors"
	"fmt"

	"github.com/deltad/deltad/sink"
)

var (
	errRefused  = errors.New("412 Precondition Failed")
	errNoAnswer = errors.New("no answer")
)

var statusNames = [...]string{"nothing", "planned", "published", "failed", "abandoned", "unknown"}

// Kinds of steps.
const (
	requestLost uint8 = iota + 1
	requestRefusedLate
	requestAppliedLate
	stateBackedUp
	stateRestored
	resetAskedFor
	readerReadsCurrent
	readerReadsManifest
	readerSwaps
	takesLease
	crashes
	isFenced
	seesForeignStore
	readsToClaim
	putApplied
	putRefused
	putAnswerLost
	putStillOnItsWay
	givesUpWaiting
	rereads
	walks
	reconciled
	refreshes
	plansRun
	refusesReset
	writesData
	writesManifest
	journalsPublished
	journalsFailed
	journalUnreachable
	findsJournalBehind
	plansCollection
	deletesData
	endsCollection
	leavesToPublish
	rebuildEnds
	readerReadsData
)

var stepNames = [...]string{
	requestLost:         "a request of epoch %d is lost",
	requestRefusedLate:  "a late request of epoch %d is refused",
	requestAppliedLate:  "a late request of epoch %d is applied",
	stateBackedUp:       "the state store is backed up",
	stateRestored:       "the state store is restored from the backup",
	resetAskedFor:       "a reset is asked for",
	readerReadsCurrent:  "the reader reads CURRENT",
	readerReadsManifest: "the reader reads the manifest",
	readerSwaps:         "the reader reads the data and swaps",
	takesLease:          "epoch %d takes the lease",
	crashes:             "epoch %d crashes",
	isFenced:            "epoch %d finds itself fenced",
	seesForeignStore:    "epoch %d finds another state store's CURRENT",
	readsToClaim:        "epoch %d reads CURRENT to claim it",
	putApplied:          "epoch %d puts CURRENT (%s): applied",
	putRefused:          "epoch %d puts CURRENT (%s): refused",
	putAnswerLost:       "epoch %d puts CURRENT (%s): applied, the answer is lost",
	putStillOnItsWay:    "epoch %d puts CURRENT (%s): no answer, the request is still on its way",
	givesUpWaiting:      "epoch %d puts CURRENT (%s): gives up without an answer, the request is still on its way",
	rereads:             "epoch %d reads CURRENT again: %s",
	walks:               "epoch %d walks the parent links",
	reconciled:          "epoch %d has reconciled the journal",
	refreshes:           "epoch %d reads CURRENT",
	plansRun:            "epoch %d journals run %d as planned (%s)",
	refusesReset:        "epoch %d refuses the reset",
	writesData:          "epoch %d writes the data of run %d",
	writesManifest:      "epoch %d writes the manifest of run %d",
	journalsPublished:   "epoch %d journals run %d as published",
	journalsFailed:      "epoch %d journals run %d as failed",
	journalUnreachable:  "epoch %d cannot reach the state store",
	findsJournalBehind:  "epoch %d finds the journal behind CURRENT",
	plansCollection:     "epoch %d plans a collection",
	deletesData:         "epoch %d deletes the data of id %d",
	endsCollection:      "epoch %d ends a collection",
	leavesToPublish:     "epoch %d leaves condemning to the next publish",
	rebuildEnds:         "a rebuild leaves base %d as a candidate",
	readerReadsData:     "the reader reads the data of the pane",
}

func (s step) String() string {
	name := stepNames[s.kind]
	switch s.kind {
	case stateBackedUp, stateRestored, resetAskedFor, readerReadsCurrent, readerReadsManifest, readerReadsData, readerSwaps:
		return name
	case rebuildEnds:
		return fmt.Sprintf(name, s.arg)
	case putApplied, putRefused, putAnswerLost, putStillOnItsWay, givesUpWaiting:
		return fmt.Sprintf(name, s.epoch, reasons[s.arg])
	case rereads:
		return fmt.Sprintf(name, s.epoch, sink.Step(s.arg))
	case plansRun:
		return fmt.Sprintf(name, s.epoch, s.arg>>4, reasons[s.arg&15])
	case writesData, writesManifest, journalsPublished, journalsFailed, deletesData:
		return fmt.Sprintf(name, s.epoch, s.arg)
	}
	return fmt.Sprintf(name, s.epoch)
}
