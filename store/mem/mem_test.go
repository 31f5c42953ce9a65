package mem_test

import (
	"testing"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
	"github.com/deltad/deltad/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return mem.New("t") }, storetest.Options{ModelChecks: 2000, Rounds: 50})
}
