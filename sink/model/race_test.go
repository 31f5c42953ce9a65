//go:build race

package model

// raced: the race detector makes the model seven times as slow, and each scenario is one goroutine: the large ones run without it.
const raced = true
