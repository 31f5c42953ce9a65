package file_test

import (
	"testing"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/file"
	"github.com/deltad/deltad/store/storetest"
)

func open(t *testing.T) store.Store {
	t.Helper()
	s, err := file.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	storetest.Run(t, open, storetest.Options{
		NoKeyAndChild:   "a file cannot be a directory too",
		NoMarkers:       "a file's name cannot end in a slash",
		NoEmptySegments: "a file's name cannot be empty, . or ..",
		Rounds:          20,
		ModelChecks:     1000,
	})
}
