// Package configs is the configuration of deltad: one strict YAML file, its
// defaults, its rules and what follows from them.
//
// Promises:
//
//  1. Nothing is ignored. An unknown key, a key written twice, a value of the
//     wrong type and a missing environment variable are errors that name the
//     line, the column and the setting.
//  2. A value cannot become structure: ${ENV} is expanded in scalar values,
//     after the YAML was parsed, never in keys and never before parsing.
//  3. Every problem is reported at once and in the same order each time, one
//     line each: "path: rule, got value".
//  4. Everything here but Load and the secret files is a pure function of the
//     configuration: Validate, Warnings, Explain and Hash read no clock, no
//     environment and no file.
//  5. Hash changes when, and only when, a setting changes that decides what
//     documents contain; two spellings of one setting have one hash.
//
// It knows no combine fn, no expression language and no store. Validate is
// told the names of the combine fns that exist; what a fn does with its
// parameters, whether an expression compiles and whether a bucket answers is
// for others to check.
//
// There is no reload: a daemon reads its file once, restart is cheap.
package configs
