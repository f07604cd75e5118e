;; The runoff modulator of flood_watch.py in WebAssembly, for brokers that do not have it registered.
;;
;; It reads what docs/reference/MODULATORS.md says a modulator is given: an array of the state (the depths as the last
;; event left them, four digits a cell; empty at first), the attributes (`rain`), the parameters (`columns`, `terrain`,
;; `left`, `top`, `right`, `bottom`), and more that it does not look at. Anything else than that is a trap.
(module
  (memory (export "memory") 8)
  (global $free (mut i32) (i32.const 0))
  ;; Where the text that was read last begins, and its length.
  (global $at (mut i32) (i32.const 0))
  (global $size (mut i32) (i32.const 0))
  (global $columns (mut i32) (i32.const 0))
  (global $cells (mut i32) (i32.const 0))
  ;; Heights and depths, an i32 for each cell.
  (global $heights (mut i32) (i32.const 0))
  (global $depths (mut i32) (i32.const 0))

  (data (i32.const 16) "rain")
  (data (i32.const 32) "terrain")
  (data (i32.const 48) "columns")
  (data (i32.const 64) "left")
  (data (i32.const 80) "top")
  (data (i32.const 96) "right")
  (data (i32.const 112) "bottom")
  ;; The answer's pieces: one event whose content is a map of three.
  (data (i32.const 128) "\91\83\a5depth\da")
  (data (i32.const 144) "\a7columns\cd")
  (data (i32.const 160) "\a7deepest\cd")

  (func (export "alloc") (param $length i32) (result i32)
    (global.set $free (i32.and (i32.add (local.get $length) (i32.const 4103)) (i32.const -8)))
    (i32.const 4096))

  ;; MessagePack.

  (func $number_of_bytes (param $at i32) (param $bytes i32) (result i32)
    (local $found i32)
    (loop $next
      (local.set $found
        (i32.or (i32.shl (local.get $found) (i32.const 8)) (i32.load8_u (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (local.set $bytes (i32.sub (local.get $bytes) (i32.const 1)))
      (br_if $next (local.get $bytes)))
    (local.get $found))

  ;; Reads the header of text or of bytes.
  (func $text (param $value i32)
    (local $tag i32) (local $width i32)
    (local.set $tag (i32.load8_u (local.get $value)))
    (global.set $at (i32.add (local.get $value) (i32.const 1)))
    (if (i32.eq (i32.and (local.get $tag) (i32.const 0xe0)) (i32.const 0xa0))
      (then (global.set $size (i32.and (local.get $tag) (i32.const 31))) (return)))
    (local.set $width (i32.const 0))
    (if (i32.and (i32.ge_u (local.get $tag) (i32.const 0xc4)) (i32.le_u (local.get $tag) (i32.const 0xc6)))
      (then (local.set $width (i32.shl (i32.const 1) (i32.sub (local.get $tag) (i32.const 0xc4))))))
    (if (i32.and (i32.ge_u (local.get $tag) (i32.const 0xd9)) (i32.le_u (local.get $tag) (i32.const 0xdb)))
      (then (local.set $width (i32.shl (i32.const 1) (i32.sub (local.get $tag) (i32.const 0xd9))))))
    (if (i32.eqz (local.get $width)) (then unreachable))
    (global.set $size (call $number_of_bytes (global.get $at) (local.get $width)))
    (global.set $at (i32.add (global.get $at) (local.get $width))))

  (func $whole (param $value i32) (result i32)
    (local $tag i32)
    (local.set $tag (i32.load8_u (local.get $value)))
    (if (i32.lt_u (local.get $tag) (i32.const 0x80)) (then (return (local.get $tag))))
    (if (i32.or (i32.lt_u (local.get $tag) (i32.const 0xcc)) (i32.gt_u (local.get $tag) (i32.const 0xce)))
      (then unreachable))
    (call $number_of_bytes
      (i32.add (local.get $value) (i32.const 1))
      (i32.shl (i32.const 1) (i32.sub (local.get $tag) (i32.const 0xcc)))))

  (func $behind_many (param $value i32) (param $count i32) (result i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $count)))
        (local.set $value (call $behind (local.get $value)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $next)))
    (local.get $value))

  ;; The place behind a value of any kind.
  (func $behind (param $value i32) (result i32)
    (local $tag i32) (local $next i32) (local $width i32)
    (local.set $tag (i32.load8_u (local.get $value)))
    (local.set $next (i32.add (local.get $value) (i32.const 1)))
    (if (i32.or (i32.lt_u (local.get $tag) (i32.const 0x80)) (i32.ge_u (local.get $tag) (i32.const 0xe0)))
      (then (return (local.get $next))))
    (if (i32.lt_u (local.get $tag) (i32.const 0x90))
      (then (return (call $behind_many (local.get $next)
        (i32.shl (i32.and (local.get $tag) (i32.const 15)) (i32.const 1))))))
    (if (i32.lt_u (local.get $tag) (i32.const 0xa0))
      (then (return (call $behind_many (local.get $next) (i32.and (local.get $tag) (i32.const 15))))))
    (if (i32.ge_u (local.get $tag) (i32.const 0xdc))
      (then
        ;; Arrays 16 and 32, maps 16 and 32.
        (local.set $width (i32.shl (i32.const 2) (i32.and (local.get $tag) (i32.const 1))))
        (return (call $behind_many (i32.add (local.get $next) (local.get $width))
          (i32.shl (call $number_of_bytes (local.get $next) (local.get $width))
            (i32.ge_u (local.get $tag) (i32.const 0xde)))))))
    (if (i32.and (i32.ge_u (local.get $tag) (i32.const 0xc0)) (i32.le_u (local.get $tag) (i32.const 0xc3)))
      (then (return (local.get $next))))
    ;; Floats, then unsigned and signed integers of 1, 2, 4 and 8 bytes.
    (if (i32.and (i32.ge_u (local.get $tag) (i32.const 0xca)) (i32.le_u (local.get $tag) (i32.const 0xcb)))
      (then (return (i32.add (local.get $next)
        (i32.shl (i32.const 4) (i32.sub (local.get $tag) (i32.const 0xca)))))))
    (if (i32.and (i32.ge_u (local.get $tag) (i32.const 0xcc)) (i32.le_u (local.get $tag) (i32.const 0xd3)))
      (then (return (i32.add (local.get $next)
        (i32.shl (i32.const 1) (i32.and (local.get $tag) (i32.const 3)))))))
    (call $text (local.get $value))
    (i32.add (global.get $at) (global.get $size)))

  (func $same (param $a i32) (param $b i32) (param $length i32) (result i32)
    (loop $next
      (if (i32.ne (i32.load8_u (local.get $a)) (i32.load8_u (local.get $b))) (then (return (i32.const 0))))
      (local.set $a (i32.add (local.get $a) (i32.const 1)))
      (local.set $b (i32.add (local.get $b) (i32.const 1)))
      (local.set $length (i32.sub (local.get $length) (i32.const 1)))
      (br_if $next (local.get $length)))
    (i32.const 1))

  ;; The value under a name in a map; a map without it is a trap.
  (func $under (param $map i32) (param $name i32) (param $length i32) (result i32)
    (local $count i32) (local $value i32)
    (local.set $count (i32.load8_u (local.get $map)))
    (local.set $value (i32.add (local.get $map) (i32.const 1)))
    (if (i32.eq (local.get $count) (i32.const 0xde))
      (then
        (local.set $count (call $number_of_bytes (local.get $value) (i32.const 2)))
        (local.set $value (i32.add (local.get $value) (i32.const 2))))
      (else (local.set $count (i32.and (local.get $count) (i32.const 15)))))
    (loop $next
      (if (i32.eqz (local.get $count)) (then unreachable))
      (call $text (local.get $value))
      (local.set $value (i32.add (global.get $at) (global.get $size)))
      (if (i32.eq (global.get $size) (local.get $length))
        (then
          (if (call $same (global.get $at) (local.get $name) (local.get $length))
            (then (return (local.get $value))))))
      (local.set $value (call $behind (local.get $value)))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br $next))
    (unreachable))

  ;; Fields.

  (func $digit (param $at i32) (result i32)
    (local $found i32)
    (local.set $found (i32.sub (i32.load8_u (local.get $at)) (i32.const 48)))
    (if (i32.gt_u (local.get $found) (i32.const 9)) (then unreachable))
    (local.get $found))

  ;; The cell of a field that is written at a place.
  (func $cell (param $field i32) (param $index i32) (result i32)
    (local.set $field (i32.add (local.get $field) (i32.shl (local.get $index) (i32.const 2))))
    (i32.add
      (i32.add
        (i32.mul (call $digit (local.get $field)) (i32.const 1000))
        (i32.mul (call $digit (i32.add (local.get $field) (i32.const 1))) (i32.const 100)))
      (i32.add
        (i32.mul (call $digit (i32.add (local.get $field) (i32.const 2))) (i32.const 10))
        (call $digit (i32.add (local.get $field) (i32.const 3))))))

  (func $write_cell (param $at i32) (param $value i32)
    (i32.store8 (local.get $at)
      (i32.add (i32.const 48) (i32.div_u (local.get $value) (i32.const 1000))))
    (i32.store8 offset=1 (local.get $at)
      (i32.add (i32.const 48) (i32.rem_u (i32.div_u (local.get $value) (i32.const 100)) (i32.const 10))))
    (i32.store8 offset=2 (local.get $at)
      (i32.add (i32.const 48) (i32.rem_u (i32.div_u (local.get $value) (i32.const 10)) (i32.const 10))))
    (i32.store8 offset=3 (local.get $at)
      (i32.add (i32.const 48) (i32.rem_u (local.get $value) (i32.const 10)))))

  (func $depth (param $index i32) (result i32)
    (i32.load (i32.add (global.get $depths) (i32.shl (local.get $index) (i32.const 2)))))

  (func $set_depth (param $index i32) (param $depth i32)
    (i32.store (i32.add (global.get $depths) (i32.shl (local.get $index) (i32.const 2))) (local.get $depth)))

  (func $surface (param $index i32) (result i32)
    (local.set $index (i32.shl (local.get $index) (i32.const 2)))
    (i32.add
      (i32.load (i32.add (global.get $heights) (local.get $index)))
      (i32.load (i32.add (global.get $depths) (local.get $index)))))

  (func $least (param $a i32) (param $b i32) (result i32)
    (select (local.get $a) (local.get $b) (i32.lt_s (local.get $a) (local.get $b))))

  (func $lower (param $lowest i32) (param $beside i32) (result i32)
    (select (local.get $beside) (local.get $lowest)
      (i32.lt_s (call $surface (local.get $beside)) (call $surface (local.get $lowest)))))

  (func $run_off (param $index i32)
    (local $lowest i32) (local $moved i32)
    (local.set $lowest (local.get $index))
    (if (i32.ge_s (local.get $index) (global.get $columns))
      (then (local.set $lowest
        (call $lower (local.get $lowest) (i32.sub (local.get $index) (global.get $columns))))))
    (if (i32.rem_u (local.get $index) (global.get $columns))
      (then (local.set $lowest
        (call $lower (local.get $lowest) (i32.sub (local.get $index) (i32.const 1))))))
    (if (i32.rem_u (i32.add (local.get $index) (i32.const 1)) (global.get $columns))
      (then (local.set $lowest
        (call $lower (local.get $lowest) (i32.add (local.get $index) (i32.const 1))))))
    (if (i32.lt_s (i32.add (local.get $index) (global.get $columns)) (global.get $cells))
      (then (local.set $lowest
        (call $lower (local.get $lowest) (i32.add (local.get $index) (global.get $columns))))))
    (if (i32.ne (local.get $lowest) (local.get $index))
      (then
        (local.set $moved (call $least
          (call $depth (local.get $index))
          (i32.shr_s
            (i32.sub (call $surface (local.get $index)) (call $surface (local.get $lowest)))
            (i32.const 1))))
        (local.set $moved (call $least
          (local.get $moved)
          (i32.sub (i32.const 9999) (call $depth (local.get $lowest)))))
        (call $set_depth (local.get $index) (i32.sub (call $depth (local.get $index)) (local.get $moved)))
        (call $set_depth (local.get $lowest) (i32.add (call $depth (local.get $lowest)) (local.get $moved)))))
    (if (i32.ge_s (local.get $index) (i32.sub (global.get $cells) (global.get $columns)))
      (then
        (call $set_depth (local.get $index)
          (i32.sub (call $depth (local.get $index)) (i32.shr_u (call $depth (local.get $index)) (i32.const 2)))))))

  ;; Reads the terrain, and adds the rain to the depths of the state.
  (func $rain_falls (param $terrain i32) (param $state i32) (param $known i32) (param $rain i32)
    (local $index i32) (local $before i32)
    (loop $next
      (i32.store
        (i32.add (global.get $heights) (i32.shl (local.get $index) (i32.const 2)))
        (i32.mul (call $cell (local.get $terrain) (local.get $index)) (i32.const 1000)))
      (local.set $before (i32.const 0))
      (if (local.get $known)
        (then (local.set $before (call $cell (local.get $state) (local.get $index)))))
      (call $set_depth (local.get $index)
        (call $least (i32.const 9999)
          (i32.add (local.get $before)
            (i32.div_u
              (i32.mul (call $cell (local.get $rain) (local.get $index)) (i32.const 60))
              (i32.const 100)))))
      (local.set $index (i32.add (local.get $index) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $index) (global.get $cells)))))

  ;; Writing the answer.

  (func $write_short (param $at i32) (param $value i32) (result i32)
    (i32.store8 (local.get $at) (i32.shr_u (local.get $value) (i32.const 8)))
    (i32.store8 offset=1 (local.get $at) (local.get $value))
    (i32.add (local.get $at) (i32.const 2)))

  (func $copy (param $from i32) (param $to i32) (param $length i32) (result i32)
    (loop $next
      (i32.store8 (local.get $to) (i32.load8_u (local.get $from)))
      (local.set $from (i32.add (local.get $from) (i32.const 1)))
      (local.set $to (i32.add (local.get $to) (i32.const 1)))
      (local.set $length (i32.sub (local.get $length) (i32.const 1)))
      (br_if $next (local.get $length)))
    (local.get $to))

  (func $write_state (param $at i32) (result i32)
    (local $index i32)
    (i32.store8 (local.get $at) (i32.const 0x92))
    (i32.store8 offset=1 (local.get $at) (i32.const 0xc5))
    (local.set $at (call $write_short
      (i32.add (local.get $at) (i32.const 2))
      (i32.shl (global.get $cells) (i32.const 2))))
    (loop $next
      (call $write_cell (local.get $at) (call $depth (local.get $index)))
      (local.set $at (i32.add (local.get $at) (i32.const 4)))
      (local.set $index (i32.add (local.get $index) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $index) (global.get $cells))))
    (local.get $at))

  (func $write_part (param $at i32) (param $left i32) (param $top i32) (param $right i32) (param $bottom i32)
    (result i32)
    (local $column i32) (local $deepest i32) (local $found i32)
    (if (i32.or
          (i32.or (i32.gt_u (local.get $right) (global.get $columns)) (i32.ge_u (local.get $left) (local.get $right)))
          (i32.or
            (i32.gt_u (i32.mul (local.get $bottom) (global.get $columns)) (global.get $cells))
            (i32.ge_u (local.get $top) (local.get $bottom))))
      (then unreachable))
    (local.set $at (call $copy (i32.const 128) (local.get $at) (i32.const 9)))
    (local.set $at (call $write_short (local.get $at)
      (i32.shl
        (i32.mul
          (i32.sub (local.get $right) (local.get $left))
          (i32.sub (local.get $bottom) (local.get $top)))
        (i32.const 2))))
    (loop $next_row
      (local.set $column (local.get $left))
      (loop $next
        (local.set $found (call $depth
          (i32.add (i32.mul (local.get $top) (global.get $columns)) (local.get $column))))
        (if (i32.gt_u (local.get $found) (local.get $deepest)) (then (local.set $deepest (local.get $found))))
        (call $write_cell (local.get $at) (local.get $found))
        (local.set $at (i32.add (local.get $at) (i32.const 4)))
        (local.set $column (i32.add (local.get $column) (i32.const 1)))
        (br_if $next (i32.lt_u (local.get $column) (local.get $right))))
      (local.set $top (i32.add (local.get $top) (i32.const 1)))
      (br_if $next_row (i32.lt_u (local.get $top) (local.get $bottom))))
    (local.set $at (call $copy (i32.const 144) (local.get $at) (i32.const 9)))
    (local.set $at (call $write_short (local.get $at) (i32.sub (local.get $right) (local.get $left))))
    (local.set $at (call $copy (i32.const 160) (local.get $at) (i32.const 9)))
    (call $write_short (local.get $at) (local.get $deepest)))

  (func (export "take") (param $given i32) (param $length i32) (result i64)
    (local $attributes i32) (local $parameters i32) (local $state i32) (local $known i32) (local $rain i32)
    (local $terrain i32) (local $index i32) (local $end i32)
    ;; An array of at most 15: one byte, then the state.
    (call $text (i32.add (local.get $given) (i32.const 1)))
    (local.set $state (global.get $at))
    (local.set $known (global.get $size))
    (local.set $attributes (i32.add (global.get $at) (global.get $size)))
    (local.set $parameters (call $behind (local.get $attributes)))
    (global.set $columns (call $whole (call $under (local.get $parameters) (i32.const 48) (i32.const 7))))
    (call $text (call $under (local.get $parameters) (i32.const 32) (i32.const 7)))
    (local.set $terrain (global.get $at))
    (global.set $cells (i32.shr_u (global.get $size) (i32.const 2)))
    (call $text (call $under (local.get $attributes) (i32.const 16) (i32.const 4)))
    (local.set $rain (global.get $at))
    (if (i32.ne (global.get $size) (i32.shl (global.get $cells) (i32.const 2))) (then unreachable))
    (if (i32.and (i32.ne (local.get $known) (i32.const 0)) (i32.ne (local.get $known) (global.get $size)))
      (then unreachable))
    (if (i32.or (i32.eqz (global.get $cells)) (i32.rem_u (global.get $cells) (global.get $columns)))
      (then unreachable))
    (global.set $heights (global.get $free))
    (global.set $depths (i32.add (global.get $heights) (i32.shl (global.get $cells) (i32.const 2))))
    (global.set $free (i32.add (global.get $depths) (i32.shl (global.get $cells) (i32.const 2))))
    (call $rain_falls (local.get $terrain) (local.get $state) (local.get $known) (local.get $rain))
    (loop $next
      (call $run_off (local.get $index))
      (local.set $index (i32.add (local.get $index) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $index) (global.get $cells))))
    (local.set $end (call $write_part
      (call $write_state (global.get $free))
      (call $whole (call $under (local.get $parameters) (i32.const 64) (i32.const 4)))
      (call $whole (call $under (local.get $parameters) (i32.const 80) (i32.const 3)))
      (call $whole (call $under (local.get $parameters) (i32.const 96) (i32.const 5)))
      (call $whole (call $under (local.get $parameters) (i32.const 112) (i32.const 6)))))
    (i64.or
      (i64.shl (i64.extend_i32_u (global.get $free)) (i64.const 32))
      (i64.extend_i32_u (i32.sub (local.get $end) (global.get $free))))))
