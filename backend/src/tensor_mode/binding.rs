//! Which input, weight or state each argument of the program is, and where each result goes (tensor
//! mode §5).

use std::path::{Component, Path};

use super::config::{ConfigTensor, TensorConfig};
use super::error::{Error, Side};
use crate::settings::TensorSettings;

/// Where an argument comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The request's input of this index of the configuration.
    Input(usize),
    /// The weight of this index of the plan.
    Weight(usize),
    /// The state of this index of the plan.
    State(usize),
}

/// Where a result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To the output of this index of the configuration.
    Output(usize),
    /// To the state of this index of the plan.
    State(usize),
}

/// A state: what a result leaves for the argument of the next execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Its name.
    pub name: String,
    /// Index of the argument that reads it.
    pub argument: usize,
    /// Index of the result that writes it.
    pub result: usize,
}

/// The binding of every argument and result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// One per argument. States are in the order of [`Plan::states`].
    pub arguments: Vec<Argument>,
    /// One per result.
    pub results: Vec<Target>,
    /// Files of the weights, relative to the version directory, in the order of their arguments.
    pub weights: Vec<String>,
    /// States in the order of their arguments.
    pub states: Vec<State>,
}

impl Plan {
    /// Reads the two lists; one that is not given binds the tensors of the configuration in order.
    ///
    /// # Errors
    /// The first rule of §5 that is broken.
    pub fn read(settings: &TensorSettings, config: &TensorConfig) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        match &settings.arguments {
            None => plan.arguments = (0..config.inputs.len()).map(Argument::Input).collect(),
            Some(list) => plan.bind_arguments(list, config)?,
        }
        match &settings.results {
            None => plan.results = (0..config.outputs.len()).map(Target::Output).collect(),
            Some(list) => plan.bind_results(list, config)?,
        }
        for state in &plan.states {
            let writes = |target: &Target| match target {
                Target::State(index) => plan.states.get(*index) == Some(state),
                Target::Output(_) => false,
            };
            if !plan.results.iter().any(writes) {
                return Err(Error::UnwrittenState(state.name.clone()));
            }
        }
        match plan.states.first() {
            Some(state) if config.max_batch_size > 0 => {
                Err(Error::BatchedState(state.name.clone()))
            }
            _ => Ok(plan),
        }
    }

    /// The argument that the input of this index is bound to.
    pub fn argument_of_input(&self, input: usize) -> Option<usize> {
        self.arguments.iter().position(|argument| *argument == Argument::Input(input))
    }

    fn bind_arguments(&mut self, list: &str, config: &TensorConfig) -> Result<(), Error> {
        let side = Side::Input;
        for item in list.split(',').map(str::trim) {
            let argument = match split(item) {
                Some(("input", name)) => Argument::Input(declared(&config.inputs, name, side)?),
                Some(("weight", path)) => {
                    check_path("weight file", path)?;
                    self.weights.push(path.to_owned());
                    Argument::Weight(self.weights.len() - 1)
                }
                Some(("state", name)) => {
                    if self.states.iter().any(|state| state.name == name) {
                        return Err(Error::Twice { side, item: format!("state '{name}'") });
                    }
                    let argument = self.arguments.len();
                    self.states.push(State { name: name.to_owned(), argument, result: 0 });
                    Argument::State(self.states.len() - 1)
                }
                _ => return Err(Error::Malformed { side, item: item.to_owned() }),
            };
            if let (Argument::Input(_), true) = (argument, self.arguments.contains(&argument)) {
                return Err(Error::Twice { side, item: item.to_owned() });
            }
            self.arguments.push(argument);
        }
        all_bound(&config.inputs, side, |input| self.argument_of_input(input).is_some())
    }

    fn bind_results(&mut self, list: &str, config: &TensorConfig) -> Result<(), Error> {
        let side = Side::Output;
        for item in list.split(',').map(str::trim) {
            let target = match split(item) {
                Some(("output", name)) => Target::Output(declared(&config.outputs, name, side)?),
                Some(("state", name)) => {
                    let index = self.states.iter().position(|state| state.name == name);
                    let index = index.ok_or_else(|| Error::UnreadState(name.to_owned()))?;
                    self.states[index].result = self.results.len();
                    Target::State(index)
                }
                _ => return Err(Error::Malformed { side, item: item.to_owned() }),
            };
            if self.results.contains(&target) {
                return Err(Error::Twice { side, item: item.to_owned() });
            }
            self.results.push(target);
        }
        all_bound(&config.outputs, side, |output| self.results.contains(&Target::Output(output)))
    }
}

/// Kind and name of an item.
fn split(item: &str) -> Option<(&str, &str)> {
    let (kind, name) = item.split_once(':')?;
    let (kind, name) = (kind.trim(), name.trim());
    (!name.is_empty()).then_some((kind, name))
}

fn declared(tensors: &[ConfigTensor], name: &str, side: Side) -> Result<usize, Error> {
    let index = tensors.iter().position(|tensor| tensor.name == name);
    index.ok_or_else(|| Error::Undeclared { side, name: name.to_owned() })
}

fn all_bound(
    tensors: &[ConfigTensor],
    side: Side,
    bound: impl Fn(usize) -> bool,
) -> Result<(), Error> {
    match tensors.iter().enumerate().find(|(index, _)| !bound(*index)) {
        Some((_, tensor)) => Err(Error::Unbound { side, name: tensor.name.clone() }),
        None => Ok(()),
    }
}

/// Refuses a path that is not inside the version directory.
pub fn check_path(kind: &'static str, path: &str) -> Result<(), Error> {
    let mut components = Path::new(path).components();
    if Path::new(path).is_absolute() {
        Err(Error::AbsolutePath { kind, path: path.to_owned() })
    } else if components.any(|component| component == Component::ParentDir) {
        Err(Error::OutsidePath { kind, path: path.to_owned() })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tlaloc_artifact::DType;

    fn config(max_batch_size: usize) -> TensorConfig {
        let tensor =
            |name: &str| ConfigTensor { name: name.into(), dtype: DType::F32, shape: vec![2] };
        TensorConfig {
            max_batch_size,
            inputs: vec![tensor("A"), tensor("B")],
            outputs: vec![tensor("Y")],
            dynamic_batching: false,
            ordinals: vec![0],
        }
    }

    fn read(arguments: &str, results: &str, max_batch_size: usize) -> Result<Plan, Error> {
        let given = |list: &str| (!list.is_empty()).then(|| list.to_owned());
        let settings = TensorSettings {
            artifacts: vec!["m.mlir".into()],
            entry: None,
            arguments: given(arguments),
            results: given(results),
        };
        Plan::read(&settings, &config(max_batch_size))
    }

    #[test]
    fn without_lists_tensors_are_bound_in_order() {
        let plan = read("", "", 4).unwrap();
        assert_eq!(plan.arguments, [Argument::Input(0), Argument::Input(1)]);
        assert_eq!(plan.results, [Target::Output(0)]);
    }

    #[test]
    fn lists_bind_in_any_order() {
        let plan = read(
            " state:s , input : B,weight:w/a:b.bin, state:t, input:A, weight:w/a:b.bin",
            "state:t, output:Y, state:s",
            0,
        )
        .unwrap();
        use Argument::{Input, State as Read, Weight};
        let expected = [Read(0), Input(1), Weight(0), Read(1), Input(0), Weight(1)];
        assert_eq!(plan.arguments, expected);
        assert_eq!(plan.results, [Target::State(1), Target::Output(0), Target::State(0)]);
        assert_eq!(plan.weights, ["w/a:b.bin", "w/a:b.bin"]);
        let state = |name: &str, argument, result| State { name: name.into(), argument, result };
        assert_eq!(plan.states, [state("s", 0, 2), state("t", 3, 0)]);
        assert_eq!(plan.argument_of_input(0), Some(4));
    }

    #[test]
    fn every_flaw_is_refused_by_name() {
        let both = "input:A, input:B";
        for (arguments, results, max_batch_size, needle) in [
            (
                "A",
                "",
                0,
                "argument 'A' in the 'arguments' parameter is not input:<name>, weight:<file> or state:<name>",
            ),
            ("input:A, , input:B", "", 0, "argument '' in the 'arguments' parameter is not"),
            ("input:", "", 0, "argument 'input:' in the 'arguments' parameter is not"),
            ("output:Y", "", 0, "argument 'output:Y' in the 'arguments' parameter is not"),
            ("Input:A", "", 0, "argument 'Input:A' in the 'arguments' parameter is not"),
            (
                "input:C",
                "",
                0,
                "the 'arguments' parameter names input 'C', which config.pbtxt does not declare",
            ),
            ("input:A, input:A", "", 0, "the 'arguments' parameter has input:A twice"),
            ("input:A", "", 0, "declares input 'B', which the 'arguments' parameter does not bind"),
            ("input:A, input:B, state:s, state:s", "", 0, "has state 's' twice"),
            (
                "input:A, input:B, weight:../w.bin",
                "",
                0,
                "weight file '../w.bin' leaves the model version directory",
            ),
            ("input:A, input:B, weight:a/../../w", "", 0, "weight file 'a/../../w' leaves"),
            ("input:A, input:B, weight:/w.bin", "", 0, "weight file '/w.bin' is absolute"),
            (
                both,
                "Y",
                0,
                "result 'Y' in the 'results' parameter is not output:<name> or state:<name>",
            ),
            (both, "weight:w", 0, "result 'weight:w' in the 'results' parameter is not"),
            (
                both,
                "output:Z",
                0,
                "the 'results' parameter names output 'Z', which config.pbtxt does not declare",
            ),
            (both, "output:Y, output:Y", 0, "the 'results' parameter has output:Y twice"),
            (
                "input:A, input:B, state:s",
                "state:s",
                0,
                "declares output 'Y', which the 'results' parameter does not bind",
            ),
            (
                both,
                "output:Y, state:kv",
                0,
                "the 'results' parameter writes state 'kv', which no state: argument reads",
            ),
            ("input:A, input:B, state:s", "output:Y, state:s, state:s", 0, "has state:s twice"),
            (
                "input:A, input:B, state:s",
                "output:Y",
                0,
                "reads state 's', which no state: result writes",
            ),
            (
                "input:A, input:B, state:s",
                "output:Y, state:s",
                4,
                "state 's' cannot be combined with max_batch_size > 0",
            ),
        ] {
            let error = read(arguments, results, max_batch_size).unwrap_err().to_string();
            assert!(error.contains(needle), "expected {needle:?} in {error:?}");
        }
    }
}
