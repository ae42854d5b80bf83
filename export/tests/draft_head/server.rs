//! The least that serves an artifact with drafts: pools, pages and state slots of a few sequences.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tlaloc_artifact::{Artifact, DType, Entry, InputRole, OutputRole};
use tlaloc_pjrt::{Client, ElementType, Executable};

use crate::K;
use crate::support::{Array, run};

/// Pages of a sequence: it owns the pages from `1 + PAGES * number` on.
const PAGES: usize = 16;

/// What a server knows of a sequence.
pub struct Sequence {
    number: usize,
    pub length: usize,
    /// The slot of its state, then those that a verify step writes.
    pub slots: Vec<usize>,
    pub drafts: Vec<i32>,
    /// All tokens that it was given. The last one has no place in the pools yet.
    pub emitted: Vec<i32>,
}

impl Sequence {
    pub fn new(number: usize) -> Sequence {
        // Slot 0 is nobody's, so that a write to it is seen by nobody either.
        let slots = (0..K + 2).map(|slot| 1 + number * (K + 2) + slot).collect();
        Sequence { number, length: 0, slots, drafts: Vec::new(), emitted: Vec::new() }
    }

    fn page(&self, block: usize) -> i32 {
        (1 + self.number * PAGES + block) as i32
    }
}

/// Integer inputs by role, as they are passed.
pub type Inputs = BTreeMap<&'static str, Vec<i32>>;

pub struct Server {
    artifact: Artifact,
    client: Arc<Client>,
    bodies: BTreeMap<String, String>,
    pools: Vec<Array>,
    weights: Vec<Array>,
    /// Results of the last call by role.
    results: BTreeMap<&'static str, Vec<i32>>,
}

impl Server {
    pub fn load(manifest: &Path, client: Arc<Client>) -> Server {
        let artifact = Artifact::open(manifest).unwrap();
        let zeros = |tensor: &tlaloc_artifact::Tensor| {
            assert_eq!(tensor.dtype(), DType::F32);
            Array::zeros(ElementType::F32, tensor.dims(), 4)
        };
        let pools = artifact.pools().iter().map(|pool| zeros(&pool.tensor)).collect();
        let weight = |weight: &tlaloc_artifact::WeightSlot| {
            let bytes = fs::read(&weight.file).unwrap();
            Array::new(ElementType::F32, weight.tensor.dims(), bytes)
        };
        let weights = artifact.weights().iter().map(weight).collect();
        let entries = artifact.entries().iter();
        let body = |entry: &Entry| (entry.id.clone(), artifact.read_body(entry).unwrap());
        let bodies = entries.map(body).collect();
        Server { artifact, client, bodies, pools, weights, results: BTreeMap::new() }
    }

    /// The program of an entry. All tests have the same, which are compiled once.
    fn program(&self, id: &str) -> Executable {
        static PROGRAMS: Mutex<BTreeMap<String, Executable>> = Mutex::new(BTreeMap::new());
        let compile = || self.client.compile(&self.bodies[id]).unwrap();
        PROGRAMS.lock().unwrap().entry(id.to_owned()).or_insert_with(compile).clone()
    }

    /// One call of a prompt's tokens for each sequence.
    pub fn prefill(&mut self, sequences: &mut [&mut Sequence], calls: &[&[i32]]) {
        let inputs = self.pack(sequences, calls, 8, sequences.len());
        self.execute("prefill_b1_c64_t8", inputs);
        for (row, (sequence, call)) in sequences.iter_mut().zip(calls).enumerate() {
            assert_eq!(self.results["ACCEPTED"][row], 0);
            assert_eq!(self.results["NEXT_TOKENS"][row * (K + 1) + 1..][..K], [0; K]);
            sequence.length += call.len();
            sequence.emitted = vec![self.results["NEXT_TOKENS"][row * (K + 1)]];
            sequence.drafts = self.results["DRAFTS"][row * K..][..K].to_vec();
        }
    }

    /// One verify step of all sequences: how many drafts of each were right.
    pub fn verify(&mut self, sequences: &mut [&mut Sequence]) -> Vec<usize> {
        let batch = sequences.len();
        self.verify_in(sequences, batch)
    }

    /// As [`Server::verify`], in an entry of `batch` rows.
    pub fn verify_in(&mut self, sequences: &mut [&mut Sequence], batch: usize) -> Vec<usize> {
        let inputs = self.inputs_in(sequences, batch);
        self.execute(&format!("decode_b{batch}_c64"), inputs);
        let mut all = Vec::new();
        for (row, sequence) in sequences.iter_mut().enumerate() {
            let accepted = self.results["ACCEPTED"][row] as usize;
            sequence.length += accepted + 1;
            let tokens = &self.results["NEXT_TOKENS"][row * (K + 1)..][..=accepted];
            sequence.emitted.extend(tokens);
            sequence.drafts = self.results["DRAFTS"][row * K..][..K].to_vec();
            sequence.slots.swap(0, 1 + accepted);
            all.push(accepted);
        }
        all
    }

    /// The next verify step's inputs, but for block tables.
    pub fn inputs(&self, sequences: &mut [&mut Sequence]) -> Inputs {
        let batch = sequences.len();
        self.chained_inputs(sequences, batch)
    }

    /// As [`Server::inputs`], in an entry of `batch` rows.
    pub fn chained_inputs(&self, sequences: &mut [&mut Sequence], batch: usize) -> Inputs {
        let mut inputs = self.inputs_in(sequences, batch);
        inputs.remove("BLOCK_TABLES");
        inputs
    }

    /// All inputs of the next verify step, in an entry of `batch` rows.
    fn inputs_in(&self, sequences: &mut [&mut Sequence], batch: usize) -> Inputs {
        let calls: Vec<Vec<i32>> = sequences
            .iter()
            .map(|s| [&s.emitted[s.emitted.len() - 1..], &s.drafts[..]].concat())
            .collect();
        let calls: Vec<_> = calls.iter().map(Vec::as_slice).collect();
        self.pack(sequences, &calls, K + 1, batch)
    }

    /// What the last call returned for the next verify step.
    pub fn chained(&self) -> Inputs {
        let names = [
            ("NEXT_TOKEN_IDS", "TOKEN_IDS"),
            ("NEXT_POSITIONS", "POSITIONS"),
            ("NEXT_SEQ_LENS", "SEQ_LENS"),
            ("NEXT_SLOT_MAPPING", "SLOT_MAPPING"),
            ("NEXT_STATE_SLOTS", "STATE_SLOTS"),
            ("NEXT_STATE_WRITE_SLOTS", "STATE_WRITE_SLOTS"),
        ];
        names.into_iter().map(|(result, input)| (input, self.results[result].clone())).collect()
    }

    /// The inputs of a verify step of one row without tokens, but for block tables.
    pub fn padding(&self, drafts: usize) -> Inputs {
        let wide = drafts + 1;
        BTreeMap::from([
            ("TOKEN_IDS", vec![0; wide]),
            ("POSITIONS", vec![0; wide]),
            ("SEQ_LENS", vec![1]),
            ("SLOT_MAPPING", vec![-1; wide]),
            ("STATE_SLOTS", vec![0]),
            ("STATE_WRITE_SLOTS", vec![-1; wide]),
        ])
    }

    /// Artifact format §7.5.
    fn pack(
        &self,
        sequences: &[&mut Sequence],
        calls: &[&[i32]],
        width: usize,
        batch: usize,
    ) -> Inputs {
        let block_size = self.artifact.block_size();
        let mut inputs = BTreeMap::from([
            ("TOKEN_IDS", vec![0; batch * width]),
            ("POSITIONS", vec![0; batch * width]),
            ("BLOCK_TABLES", vec![0; batch * 64 / block_size]),
            ("SEQ_LENS", vec![1; batch]),
            ("SLOT_MAPPING", vec![-1; batch * width]),
            ("STATE_SLOTS", vec![0; batch]),
            ("STATE_WRITE_SLOTS", vec![-1; batch * width]),
        ]);
        let mut put = |name: &str, at: usize, value: i32| inputs.get_mut(name).unwrap()[at] = value;
        for (row, (sequence, call)) in sequences.iter().zip(calls).enumerate() {
            for (index, &token) in call.iter().enumerate() {
                let at = row * width + width - call.len() + index;
                let position = sequence.length + index;
                put("TOKEN_IDS", at, token);
                put("POSITIONS", at, position as i32);
                let slot = sequence.page(position / block_size) as usize * block_size;
                put("SLOT_MAPPING", at, (slot + position % block_size) as i32);
            }
            for block in 0..64 / block_size {
                put("BLOCK_TABLES", row * 64 / block_size + block, sequence.page(block));
            }
            put("SEQ_LENS", row, (sequence.length + call.len()) as i32);
            put("STATE_SLOTS", row, sequence.slots[0] as i32);
            if width == K + 1 {
                for (column, &slot) in sequence.slots[1..].iter().enumerate() {
                    put("STATE_WRITE_SLOTS", row * width + column, slot as i32);
                }
            }
        }
        inputs
    }

    fn execute(&mut self, id: &str, inputs: Inputs) {
        let entry = self.artifact.entries().iter().find(|entry| entry.id == id).unwrap();
        let (mut pools, mut weights) = (self.pools.iter(), self.weights.iter());
        let arguments: Vec<Array> = entry
            .inputs
            .iter()
            .map(|input| match input.role {
                InputRole::Pool(_) => pools.next().unwrap().clone(),
                InputRole::Weight => weights.next().unwrap().clone(),
                role => Array::i32(input.tensor.dims(), &inputs[role.manifest_name()]),
            })
            .collect();
        let results = run(&self.program(id), &arguments);
        self.results.clear();
        let mut pools = self.pools.iter_mut();
        for (output, result) in entry.outputs.iter().zip(results) {
            match output.role {
                OutputRole::Pool(_) => *pools.next().unwrap() = result,
                role => {
                    let values = result.bytes.as_chunks().0.iter().map(|&x| i32::from_ne_bytes(x));
                    self.results.insert(role.manifest_name(), values.collect());
                }
            }
        }
    }
}
